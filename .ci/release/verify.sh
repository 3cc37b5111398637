#!/usr/bin/env bash
# Makes the release VERSION again, from its tag (or COMMIT) in a new clone at another path, and compares the result with
# SUMS, the published SHA256SUMS. ARCHES are to be those of the release.
# Usage: verify.sh VERSION SUMS
set -euo pipefail
cd "$(dirname "$0")/../.."
version=v${1#v}
sums=$(realpath "$2")

clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
git clone --quiet --no-checkout . "$clone/source"
git -C "$clone/source" checkout --quiet --detach "$(git rev-parse "${COMMIT:-refs/tags/$version}^{commit}")"
CARGO_TARGET_DIR=$clone/target "${MAKE:-make}" --no-print-directory -C "$clone/source" release VERSION="$version"

cd "$clone/source/release/$version"
if sha256sum --quiet --check "$sums"; then
    echo "verify: $version is what $(git -C "$clone/source" rev-parse HEAD) gives: $(wc -l <"$sums") files are the same"
else
    echo "verify: files differ; compare BUILD.txt with this:" >&2
    cat BUILD.txt >&2
    exit 1
fi
