#!/usr/bin/env bash
# Usage: testing/upstream/run.sh SUITE
# Runs Open Cluster Management's integration tests of an agent, registration or work, against PROGRAM, or with an empty
# PROGRAM against OCM's own agent. See README.md.
set -euo pipefail
cd "$(dirname "$0")"
fail() { echo "make upstream: $*" >&2; exit 1; }

suite=${1:-}
programs=${CARGO_TARGET_DIR:-../../target}/debug
# Parts run at the same time, each with a control plane of its own: first the tests that mostly wait.
case $suite in
registration)
    export PROGRAM=${PROGRAM-$programs/csr-bootstrapper}
    specs=43
    skip=(ClusterProfile ManagedClusterSet 'Cluster deleting' 'Taints Update' 'Cluster Auto Importer' hubAcceptsClient
        'denied by manually' 'for aws' GRPC)
    waiting='Addon Lease Resync|switch-hub'
    ;;
work)
    export PROGRAM=${PROGRAM-$programs/klusterlet-agent}
    specs=70
    skip=(ManifestWorkReplicaSet 'TTL after completion')
    if [ -n "$PROGRAM" ]; then
        # They assert the result of a rule in CEL, which klusterlet-agent refuses.
        specs=67
        skip+=('by CEL rules' 'Jobs condition rules with wildcard matched multi' 'should update work and be completed')
    fi
    waiting='Executor|Unmanaged|should not increase'
    ;;
*) fail "the suite must be registration or work, got $suite" ;;
esac
[ -z "$PROGRAM" ] || PROGRAM=$(realpath -e "$PROGRAM")
KUBEBUILDER_ASSETS=$(../controlplane/build.sh)
export KUBEBUILDER_ASSETS

# The version of the control plane's agents; Go verifies it by the control plane's go.sum, and what it needs by its own.
module() { go -C ../controlplane list -m -f '{{.Dir}}' "open-cluster-management.io/$1"; }
go -C ../controlplane mod download open-cluster-management.io/{ocm,api}
ocm=$(module ocm)
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

# A tree of its own, which may be changed. The tests find CRDs by paths of a clone with vendored modules.
tree=$dir/tree
cp -r --no-preserve=mode "$ocm" "$tree"
mkdir -p "$tree/vendor/open-cluster-management.io"
ln -s "$(module api)" "$tree/vendor/open-cluster-management.io/api"

# Puts a file of ours there.
add() { install -Dm 644 "$1" "$tree/$2"; }
# FILE PATTERN REPLACEMENT [TIMES]: other text than expected, once by default, ends the run.
adapt() {
    FROM=$2 TO=$3 TIMES=${4:-1} perl -0777 -i -pe '$n += s/$ENV{FROM}/$ENV{TO}/sg; END { $? = $n != $ENV{TIMES} }' \
        "$tree/$1" || fail "$1 must have this ${4:-1} times: $2"
}
. ./adaptations.sh
# As the control plane is built, which has compiled most of this; without paths, so that it serves in the next run's tree.
export CGO_ENABLED=0
go -C "$tree" test -c -vet=off -mod=readonly -trimpath -o "$dir/suite" "./test/integration/$suite"

logs=${CARGO_TARGET_DIR:-$PWD/../../target}/upstream
mkdir -p "$logs"
rm -f "$logs/$suite"-*
# Each part has its own directory for temporary files.
part() {
    local name=$suite-$1
    shift
    mkdir "$dir/$name"
    (cd "$tree" && TMPDIR=$dir/$name exec "$dir/suite" "${skip[@]/#/-ginkgo.skip=}" "$@" -ginkgo.v \
        -ginkgo.no-color -ginkgo.junit-report="$logs/$name.xml" >"$logs/$name.log" 2>&1)
}
failed=
part waiting -ginkgo.focus="$waiting" &
part others -ginkgo.skip="$waiting" || failed=yes
wait $! || failed=yes

sed -n 's/.*<testcase name="\[It\] \([^"]*\)".* status="\([^s"][^"]*\)" time="\([0-9]*\).*/\3 s \2: \1/p' \
    "$logs/$suite"-*.xml | sort -t: -k2
passed=$(cat "$logs/$suite"-*.xml | grep -c 'name="\[It\].* status="passed"' || true)
echo "$passed of $specs tests of open-cluster-management.io/${ocm##*/} passed with ${PROGRAM:-the original}"
# A program ends when it is stopped, and by nothing else.
if grep -hF 'upstream: ' "$logs/$suite"-*.log; then failed=yes; fi
[ -z "$failed" ] && [ "$passed" = "$specs" ] || fail "see $logs/$suite-*.log"
