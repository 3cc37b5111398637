#!/usr/bin/env bash
# Runs a command beside a hub's and a managed cluster's control plane; see README.md.
set -euo pipefail
assets=$("$(dirname "$0")/build.sh")
exec "$assets/boot" "$@"
