#!/bin/sh
# The dependency policy for the programs named on the command line. It does what cargo-deny would, with
# nothing but cargo itself, and without network once the crates are there; advisories are not its matter.
set -eu
cd "$(dirname "$0")/.."

list=$(mktemp)
trap 'rm -f "$list"' EXIT

# Workspace: all may use `shared`, and all but it the testing crates; the programs only in their tests,
# which the last part holds.
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

# Sources, of everything.
if grep '^source = ' Cargo.lock | grep -vF '"registry+https://github.com/rust-lang/crates.io-index"'; then
    echo "dependencies: these come from elsewhere than crates.io" >&2
    exit 1
fi

# libFuzzer is C++ and under a licence of its own: nothing but `make fuzz` may build it.
cargo tree --locked --workspace -e normal,build,dev --prefix none -f '{p}' >"$list"
if grep '^libfuzzer-sys ' "$list"; then
    echo "dependencies: who builds the workspace builds libFuzzer" >&2
    exit 1
fi

# What is linked into a program or runs to build it.
for program in "$@"; do
    for arch in x86_64 aarch64; do
        cargo tree --locked -p "$program" -e normal,build --target "$arch-unknown-linux-musl" \
            --prefix none -f '{p}|{l}' >"$list"
        sed 's/ (\*)$//' "$list" | sort -u | awk -F '|' -v program="$program" -v arch="$arch" '
            function refuse(why) { print "dependencies: " program ": " $1 ": " why; bad = 1 }
            BEGIN {
                # Expressions as the crates write them, which may be as of old. BSL-1.0 and Unlicense are
                # choices not taken.
                split("Apache-2.0;MIT;ISC;BSD-3-Clause;Apache-2.0 OR MIT;MIT OR Apache-2.0;MIT/Apache-2.0;" \
                    "Apache-2.0 AND ISC;Apache-2.0 OR ISC OR MIT;Apache-2.0 OR BSL-1.0;Unlicense OR MIT;" \
                    "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT;" \
                    "(MIT OR Apache-2.0) AND Unicode-3.0;Zlib", list, ";")
                for (i in list) licence[list[i]] = 1
            }
            {
                split($1, part, " "); name = part[1]
                crates++
                if (!($2 in licence)) refuse("licence \"" $2 "\" is not on the list")
                if (name in version) refuse("also there as " version[name])
                version[name] = part[2]
            }
            name ~ /^(tokio|async-std|smol|futures|futures-.*|hyper|hyper-.*|reqwest)$/ { refuse("async") }
            name ~ /^(kube|kube-.*|k8s-openapi)$/ { refuse("a Kubernetes library") }
            name ~ /^(openssl|openssl-.*|native-tls|aws-lc-.*)$/ { refuse("TLS is rustls with ring") }
            # x509-cert brings der_derive; each further one costs every build its compile time.
            /\(proc-macro\)/ && name != "der_derive" { refuse("a procedural macro") }
            name ~ /^(suite|dev-apiserver|fuzz)$/ { refuse("a testing crate") }
            END {
                if (!bad) print "dependencies: " program " for " arch ": " crates " crates"
                exit bad || !crates
            }'
    done
done
