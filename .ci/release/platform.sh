#!/bin/sh
# Prints what OCI calls the architecture ARCH, the first part of a Rust target: os and architecture come first there.
# Usage: platform.sh ARCH
case $1 in
x86_64) echo amd64 ;;
aarch64) echo arm64 ;;
armv7) echo arm/v7 ;;
*) echo "release: there is no architecture $1; ARCHES are x86_64, aarch64 and armv7" >&2; exit 1 ;;
esac
