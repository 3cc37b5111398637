#!/usr/bin/env bash
# Runs the smoke scenarios of each program, built for ARCH in DIST, under qemu-user; not the dumper's crashes, which have
# strace around it.
# Usage: emulated.sh ARCH DIST
set -euo pipefail
cd "$(dirname "$0")/.."
case $1 in
armv7) qemu=qemu-arm-static ;;
aarch64) qemu=qemu-aarch64-static ;;
*) echo "emulated: ARCH is armv7 or aarch64" >&2; exit 1 ;;
esac
command -v $qemu >/dev/null || { echo "emulated: please install qemu-user-static" >&2; exit 1; }

wrappers=$(mktemp -d)
trap 'rm -rf "$wrappers"' EXIT
for program in "$2"/*; do
    name=$(basename "$program")
    # The name that it is called by counts: csr-bootstrapper answers to `registration`, too.
    printf '#!/bin/sh\nexec %s -0 "$0" "%s" "$@"\n' $qemu "$(realpath "$program")" >"$wrappers/$name"
    chmod +x "$wrappers/$name"
done
export BIN_DIR=$wrappers
# Emulated programs need more of a processor: two at a time.
export RUST_TEST_THREADS=2

run() { cargo test --locked -p suite --test "$1" -- smoke:: "${@:2}"; }
run addon_lease_controller
run csr_bootstrapper
run hub_kubeconfig_dumper --skip crash
run remote_sync
