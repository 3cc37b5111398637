#!/bin/sh
# Changes the code that decides in every way that cargo-mutants knows, and runs the unit tests of its crate against
# each change: some 800, 5 to 10 s each on two cores. `mutants.sh csr-bootstrapper` does one crate. mutants.md lists
# those that no unit test notices.
set -eu
cd "$(dirname "$0")/.."
command -v cargo-mutants >/dev/null || { echo "mutants: cargo install cargo-mutants --locked" >&2; exit 1; }
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0

# CRATE KIND FILE...: the files of a crate, with the tests of its library or program.
mutants() {
    crate=$1 kind=$2
    shift 2
    [ "$only" = all ] || [ "$only" = "$crate" ] || return 0
    out=${OUT:-$(mktemp -d)}/$crate
    mkdir -p "$out"
    set -- $(printf -- '--file %s ' "$@")
    # A mutant that survives is a result and no failure.
    cargo mutants --package "$crate" --test-package "$crate" --timeout 60 --output "$out" "$@" -- "$kind" || true
    echo "mutants: $crate: survivors are in $out/mutants.out/missed.txt"
}

only=${1:-all}
mutants shared --lib shared/src/renewal.rs shared/src/backoff.rs shared/src/election.rs \
    shared/src/files/plan.rs
src=bins/csr-bootstrapper/src
mutants csr-bootstrapper --bins $src/certificate/machine.rs $src/certificate/need.rs $src/certificate/observe.rs \
    $src/certificate/csr_status.rs $src/certificate/deadline.rs $src/certificate/pacing.rs \
    $src/certificate/validate.rs $src/clocks.rs
src=bins/remote-sync/src
mutants remote-sync --bins $src/sync/decide.rs $src/sync/observed.rs $src/sync/decide/deletion.rs $src/sync/gate.rs $src/sync/workqueue/order.rs \
    $src/connection/schedule.rs
