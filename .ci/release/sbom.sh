#!/usr/bin/env bash
# Prints the software bill of materials of PROGRAM as CycloneDX 1.5: the crates that are linked into it, with their
# checksums of Cargo.lock, and which of them needs which. cargo-cyclonedx writes the builder's paths and the time.
# Usage: sbom.sh PROGRAM VERSION
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$1
version=$2

# Lines "depth name version|licence", a crate before what it needs.
cargo tree --locked -p "$program" -e normal,no-proc-macro --prefix depth --no-dedupe -f ' {p}|{l}' \
    --target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl \
    --target armv7-unknown-linux-musleabihf |
    sed 's/ v\([^ |]*\)[^|]*|/ \1|/' |
    awk -F '|' -v program="$program" -v release="$version" '
        BEGIN {
            while ((getline line <"Cargo.lock") > 0) {
                split(line, part, "\"")
                if (line ~ /^name = /) name = part[2]
                if (line ~ /^version = /) id = name "@" part[2]
                if (line ~ /^checksum = /) checksum[id] = part[2]
            }
        }
        {
            split($1, word, " ")
            depth = word[1]; id = word[2] "@" word[3]; parent = way[depth - 1]; way[depth] = id
            if (!(id in licence)) order[++count] = id
            licence[id] = $2
            gsub("/", " OR ", licence[id])
            if (depth > 0 && !((parent, id) in known)) {
                known[parent, id] = 1
                needs[parent] = needs[parent] (needs[parent] == "" ? "" : ", ") "\"pkg:cargo/" id "\""
            }
        }
        function component(id, type) {
            split(id, part, "@")
            text = "{\"type\": \"" type "\", \"bom-ref\": \"pkg:cargo/" id "\", \"name\": \"" part[1] "\", " \
                "\"version\": \"" part[2] "\", \"purl\": \"pkg:cargo/" id "\", " \
                "\"licenses\": [{\"expression\": \"" licence[id] "\"}]"
            if (id in checksum)
                text = text ", \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"" checksum[id] "\"}]"
            return text "}"
        }
        END {
            if (order[1] != program "@" release) {
                print "sbom: " order[1] " is not " program " " release >"/dev/stderr"; exit 1
            }
            print "{\"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.5\", \"version\": 1,"
            print "\"metadata\": {\"component\": " component(order[1], "application") "},"
            print "\"components\": ["
            for (i = 2; i <= count; i++) print component(order[i], "library") (i < count ? "," : "")
            print "],"
            print "\"dependencies\": ["
            for (i = 1; i <= count; i++)
                print "{\"ref\": \"pkg:cargo/" order[i] "\", \"dependsOn\": [" needs[order[i]] "]}" (i < count ? "," : "")
            print "]}"
        }'
