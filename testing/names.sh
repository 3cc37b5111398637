#!/bin/sh
# A public type name means one thing in what ships. Each program has Settings of its own, which its flags
# become, and a Reporter, which its endpoint asks.
set -eu
cd "$(dirname "$0")/.."

find bins/*/src shared/src -name '*.rs' ! -name 'tests.rs' ! -path '*/tests/*' -exec awk '
    /^(pub\(crate\) )?mod tests \{/ { nextfile }
    match($0, /^ *pub(\([a-z]+\))? (struct|enum|trait|type|union) /) {
        name = substr($0, RLENGTH + 1); sub(/[^A-Za-z0-9_].*/, "", name)
        if (name != "Settings" && name != "Reporter") print name, FILENAME
    }' {} + | sort | awk '
    { seen++ }
    $1 == name { print "names: " name " is in " file " and in " $2; bad = 1 }
    { name = $1; file = $2 }
    END { exit bad || !seen }' >&2
