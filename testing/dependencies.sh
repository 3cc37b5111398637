#!/bin/sh
# Checks which crates of this workspace may need which, with cargo alone; deny.toml says what may come in from elsewhere.
set -eu
cd "$(dirname "$0")/.."

list=$(mktemp)
trap 'rm -f "$list"' EXIT

# Workspace crates: all may use `shared`; all but `shared` may use the testing crates, programs only in their
# tests, which the last part checks.
for manifest in bins/*/Cargo.toml shared/Cargo.toml testing/*/Cargo.toml; do
    cargo tree --locked --manifest-path "$manifest" -e normal,build,dev --depth 1 --prefix none -f '{p}' >"$list"
    awk -v root="$PWD/" -v from="${manifest%/Cargo.toml}" '
        index($0, "(" root) {
            to = substr($0, index($0, "(" root) + 1 + length(root)); sub(/\).*/, "", to)
            if (to != from && to != "shared" && !(from != "shared" && to ~ /^testing\//)) {
                print "dependencies: " from " must not depend on " to; bad = 1
            }
            seen++
        }
        END { exit bad || !seen }' "$list" >&2
done

# Sources of all crates; deny.toml asks about those of the programs.
if grep '^source = ' Cargo.lock | grep -vF '"registry+https://github.com/rust-lang/crates.io-index"'; then
    echo "dependencies: these crates are not from crates.io" >&2
    exit 1
fi

# libFuzzer is C++ and has its own licence: only `make fuzz` may build it.
cargo tree --locked --workspace -e normal,build,dev --prefix none -f '{p}' >"$list"
if grep '^libfuzzer-sys ' "$list"; then
    echo "dependencies: building the workspace would build libFuzzer" >&2
    exit 1
fi

for program in "$@"; do
    cargo tree --locked -p "$program" -e normal,build --prefix none -f '{p}' >"$list"
    if grep "($PWD/testing/" "$list"; then
        echo "dependencies: $program must not be linked with a testing crate" >&2
        exit 1
    fi
done
