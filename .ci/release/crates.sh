#!/usr/bin/env bash
# Prints the crates that are linked into the programs PROGRAM..., one "name version licence" a line.
# Usage: crates.sh PROGRAM...
set -euo pipefail
cd "$(dirname "$0")/../.."

programs=
for program in "$@"; do programs="$programs -p $program"; done
# shellcheck disable=SC2086 # A list of words.
cargo tree --locked $programs -e normal,no-proc-macro --prefix none -f '{p}|{l}' \
    --target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl \
    --target armv7-unknown-linux-musleabihf |
    sed -n 's/ (\*)$//; / (\//d; s/^\([^ ]*\) v\([^|]*\)|/\1 \2 /p' | LC_ALL=C sort -u
