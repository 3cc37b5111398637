#!/bin/sh
# Checks that each public type name in the shipped crates has one meaning. Three names are exempt: each program has
# its own Settings, made from its flags, and its own Reporter, for its endpoint; each crate has its own Result. Tests do
# not ship, nor do the models that they explore.
set -eu
cd "$(dirname "$0")/.."

find bins/*/src shared/*/src -name '*.rs' ! -name 'tests.rs' ! -path '*/tests/*' \
    ! -path '*/decide/model*' ! -path '*/certificate/model*' ! -path '*/work/model*' -exec awk '
    /^(pub\(crate\) )?mod tests \{/ { nextfile }
    match($0, /^ *pub(\([a-z]+\))? (struct|enum|trait|type|union) /) {
        name = substr($0, RLENGTH + 1); sub(/[^A-Za-z0-9_].*/, "", name)
        if (name != "Settings" && name != "Reporter" && name != "Result") print name, FILENAME
    }' {} + | sort | awk '
    { seen++ }
    $1 == name { print "names: " name " is in both " file " and " $2; bad = 1 }
    { name = $1; file = $2 }
    END { exit bad || !seen }' >&2
