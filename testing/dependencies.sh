#!/bin/sh
# Checks the dependency policy for the programs named on the command line. It does the work of cargo-deny with
# cargo alone, and without a network once the crates are downloaded. It does not check advisories.
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

# Sources of all crates.
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

# Crates that are linked into a program or run to build it.
for program in "$@"; do
    for arch in x86_64 aarch64; do
        cargo tree --locked -p "$program" -e normal,build --target "$arch-unknown-linux-musl" \
            --prefix none -f '{p}|{l}' >"$list"
        sed 's/ (\*)$//' "$list" | sort -u | awk -F '|' -v program="$program" -v arch="$arch" '
            function reject(why) { print "dependencies: " program ": " $1 ": " why; bad = 1 }
            BEGIN {
                # Expressions as the crates write them, in old syntax too. BSL-1.0 and Unlicense are
                # alternatives that we do not choose.
                split("Apache-2.0;MIT;ISC;BSD-3-Clause;Apache-2.0 OR MIT;MIT OR Apache-2.0;MIT/Apache-2.0;" \
                    "Apache-2.0 AND ISC;Apache-2.0 OR ISC OR MIT;Apache-2.0 OR BSL-1.0;Unlicense OR MIT;" \
                    "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT;" \
                    "(MIT OR Apache-2.0) AND Unicode-3.0;Zlib", list, ";")
                for (i in list) licence[list[i]] = 1
            }
            {
                split($1, part, " "); name = part[1]
                crates++
                if (!($2 in licence)) reject("licence \"" $2 "\" is not on the list")
                if (name in version) reject("also present as " version[name])
                version[name] = part[2]
            }
            name ~ /^(tokio|async-std|smol|futures|futures-.*|hyper|hyper-.*|reqwest)$/ { reject("async") }
            name ~ /^(kube|kube-.*|k8s-openapi)$/ { reject("a Kubernetes library") }
            name ~ /^(openssl|openssl-.*|native-tls|aws-lc-.*)$/ { reject("TLS is rustls with ring") }
            # x509-cert brings der_derive; each further one would cost compile time in every build.
            /\(proc-macro\)/ && name != "der_derive" { reject("a procedural macro") }
            name ~ /^(suite|dev-apiserver|explorer|fuzz)$/ { reject("a testing crate") }
            END {
                if (!bad) print "dependencies: " program " for " arch ": " crates " crates"
                exit bad || !crates
            }'
    done
done
