#!/usr/bin/env bash
# Writes the licences of all that is linked into the programs PROGRAM... to DIRECTORY: this repository's LICENSE, the
# crates' own texts in THIRD-PARTY.txt, each text once, and the file that Rust's standard library comes with.
# Usage: notices.sh DIRECTORY PROGRAM...
set -euo pipefail
cd "$(dirname "$0")/../.."
directory=$1
shift
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src

rm -rf "$directory"
mkdir -p "$directory"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# Lines "name version licence"; the licence is an expression with blanks.
.ci/release/crates.sh "$@" | while read -r name version licence; do
    echo "$name $version: $licence" >>"$temporary/list"
    found=
    for text in "$registry"/*/"$name-$version"/*; do
        case $(basename "$text" | tr '[:lower:]' '[:upper:]') in
        *LICEN[CS]E* | COPYING* | COPYRIGHT* | NOTICE*)
            sum=$(sha256sum <"$text" | cut -c 1-64)
            cp "$text" "$temporary/$sum.text"
            echo "$name $version, $(basename "$text")" >>"$temporary/$sum.names"
            found=yes
            ;;
        esac
    done
    [ "$found" ] || { echo "notices: $name $version has no licence text in $registry" >&2; exit 1; }
done

{
    echo "The programs are linked with these libraries, with musl and with Rust's standard library, whose notices are in"
    echo "COPYRIGHT-library.html."
    echo
    cat "$temporary/list"
    for names in "$temporary"/*.names; do
        printf '\n%s\n' "================================================================================"
        cat "$names"
        printf '%s\n\n' "--------------------------------------------------------------------------------"
        cat "${names%.names}.text"
    done
    printf '\n%s\n' "================================================================================"
    cat .ci/release/musl.txt
} >"$directory/THIRD-PARTY.txt"
cp LICENSE "$directory/"
cp "$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" "$directory/"
chmod 644 "$directory"/*
