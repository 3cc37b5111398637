#!/bin/sh
# Checks which crates may need which, with cargo alone; deny.toml says what may come in from elsewhere.
# Usage: dependencies.sh PROGRAM...
set -eu
cd "$(dirname "$0")/.."

tree() { cargo tree --locked --prefix none -f '{p}' "$@"; }
fail() { echo "dependencies: $1" >&2; exit 1; }

# What ships needs `shared` and no other crate of this workspace; `shared` does without them in its tests, too.
for crate in shared "$@"; do
    list=$(tree -p "$crate" -e normal,build)
    [ "$crate" != shared ] || list=$(tree -p shared -e normal,build,dev)
    ! echo "$list" | grep -vE "^($crate|shared) " | grep -F "($PWD/" || fail "$crate must not depend on these"
done

# Sources of all crates; deny.toml asks about those of the programs.
! grep '^source = ' Cargo.lock | grep -vF '"registry+https://github.com/rust-lang/crates.io-index"' ||
    fail "these crates are not from crates.io"

# libFuzzer is C++ and has its own licence: only `make fuzz` may build it.
list=$(tree --workspace -e normal,build,dev)
! echo "$list" | grep '^libfuzzer-sys ' || fail "building the workspace would build libFuzzer"
