#!/usr/bin/env bash
# Runs a command with the control planes of a hub and a managed cluster; see README.md.
set -euo pipefail
assets=$("$(dirname "$0")/build.sh")
exec "$assets/boot" "$@"
