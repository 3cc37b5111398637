#!/bin/sh
# Changes code in every way that cargo-mutants knows, and runs the unit tests of its crate against each change: 10 to 30 s
# each on two cores. A change that no test notices is listed, and no failure. See mutants.md.
# Usage: mutants.sh [CRATE]           the code that decides, some 800 changes
#        mutants.sh --changed [BASE]  what differs from BASE, or from the commit of a day ago; at most MINUTES=20
set -eu
cd "$(dirname "$0")/.."
command -v cargo-mutants >/dev/null || { echo "mutants: cargo install cargo-mutants --locked" >&2; exit 1; }
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 RUST_BACKTRACE=0
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"

# NAME ARGUMENT...: a run, whose lists are in $out/NAME; 2 says that changes survived, 3 that one took too long, and 124
# that the time was up.
mutants() {
    name=$1 code=0
    shift
    timeout -s INT "${MINUTES:-600}m" cargo mutants --minimum-test-timeout 60 --timeout-multiplier 2 --output "$out/$name" "$@" || code=$?
    case $code in 0 | 2 | 3 | 124) ;; *) echo "mutants: $name: cargo-mutants failed ($code)" >&2; exit "$code" ;; esac
}

src=bins/csr-bootstrapper/src
sync=bins/remote-sync/src
files() {
    case $1 in
    shared) echo shared/src/renewal.rs shared/src/backoff.rs shared/src/election.rs shared/src/files/plan.rs ;;
    csr-bootstrapper)
        printf "$src/%s.rs " certificate/machine certificate/need certificate/observe certificate/csr_status \
            certificate/deadline certificate/pacing certificate/validate clocks
        ;;
    remote-sync)
        printf "$sync/%s.rs " sync/decide sync/observed sync/decide/deletion sync/gate sync/workqueue/order \
            connection/schedule
        ;;
    *) echo "mutants: no such crate: $1" >&2; exit 1 ;;
    esac
}

if [ "${1:-}" = --changed ]; then
    : "${MINUTES:=20}"
    base=${2:-$(git rev-list -1 --before='24 hours ago' HEAD)}
    [ -n "$base" ] || { echo "mutants: no commit is a day old here" >&2; exit 1; }
    git diff "$base" -- '*.rs' >"$out/changed.diff"
    [ ! -s "$out/changed.diff" ] || mutants changed --in-diff "$out/changed.diff" --exclude 'testing/**' -- --tests
else
    for crate in ${1:-shared csr-bootstrapper remote-sync}; do
        all=$(files "$crate")
        # shellcheck disable=SC2086
        mutants "$crate" --package "$crate" $(printf -- '--file %s ' $all) -- --tests
    done
fi

count() { find "$out" -name "$1.txt" -exec cat {} + | wc -l; }
caught=$(count caught) missed=$(count missed) late=$(count timeout)
all=$(find "$out" -name mutants.json -exec cat {} + | grep -c '"genre"' || true)
find "$out" -name missed.txt -exec cat {} +
echo "mutants: $caught caught, $missed missed, $late timed out," \
    "$((all - caught - missed - late - $(count unviable))) not tried; lists are in $out"
