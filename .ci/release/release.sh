#!/usr/bin/env bash
# Makes the release VERSION in release/VERSION of this clone: for each architecture in ARCHES an archive of the
# programs, then the images, the manifests, the lists of what is linked, and the sums of it all. Nothing is downloaded
# when the crates are here, nothing is signed or pushed: the commands for that are printed. The same commit, compilers
# and buildah give the same bytes, wherever they run.
# Usage: release.sh VERSION PROGRAM...; ARCHES, REGISTRY, SOURCE
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "release: $*" >&2; exit 1; }

version=v${1#v}
shift
workspace=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "$version" = "v$workspace" ] || fail "the programs have version $workspace, see Cargo.toml, not ${version#v}"
cargo auditable --version >/dev/null 2>&1 || fail "please install cargo-auditable: cargo install --locked cargo-auditable"
command -v buildah >/dev/null || fail "please install buildah"
revision=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || fail "a release is of a commit, and files here differ from $revision"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC

out=$PWD/release/$version
rm -rf "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# pack FILE DIRECTORY NAME...: an archive that depends on the files' names, modes and content alone.
pack() {
    local file=$1 directory=$2
    shift 2
    tar --create --directory "$directory" --sort name --mtime "@$SOURCE_DATE_EPOCH" --owner 0 --group 0 \
        --numeric-owner --mode 'u=rwX,go=rX' --format ustar "$@" | gzip -9n >"$out/$file"
}

.ci/release/notices.sh "$work/notices" "$@"
for arch in $ARCHES; do
    AUDITABLE=auditable .ci/release/dist.sh "$arch" "$work/$arch" "$@"
    . .ci/release/target.sh "$arch"
    name=spoke-sidecars-$version-linux-${platform/\//}
    echo "$arch: $($compiler --version | sed -n 1p);" \
        "standard library $([ -d "$std" ] && echo of the toolchain || cat "$own_std/origin")" >>"$work/compilers"
    mkdir "$work/$name"
    cp -a "$work/$arch"/* "$work/notices"/* "$work/$name/"
    .ci/release/roots.sh "$work/roots/$arch" "$work/$arch" "$work/notices" "$@"
    pack "$name.tar.gz" "$work" "$name"
done

.ci/release/images.sh "$out" "$work" "$version" "$revision" "$@"

# The manifests as they are in the repository, with the image of this release.
mkdir "$work/spoke-sidecars-$version-manifests"
git archive HEAD manifests | tar --extract --directory "$work/spoke-sidecars-$version-manifests"
image=${REGISTRY:+$REGISTRY/}spoke-sidecars:$version
grep -rlF spoke-sidecars:dev "$work/spoke-sidecars-$version-manifests" | xargs sed -i "s#spoke-sidecars:dev#$image#"
# What an overlay names to replace it.
sed -i "s#name: spoke-sidecars\$#name: ${image%:*}#" "$work/spoke-sidecars-$version-manifests"/manifests/{README.md,examples/overlay/kustomization.yaml}
pack "spoke-sidecars-$version-manifests.tar.gz" "$work" "spoke-sidecars-$version-manifests"

for program; do .ci/release/sbom.sh "$program" "${version#v}" >"$out/$program-$version.cdx.json"; done
cp "$work/notices/THIRD-PARTY.txt" "$out/"
{
    echo "spoke-sidecars $version"
    echo "commit $revision"
    rustc --version --verbose
    cat "$work/compilers"
    buildah --version
} >"$out/BUILD.txt"

cd "$out"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
cat SHA256SUMS
cat <<END

To verify it, in another clone that has this commit, with the compilers of BUILD.txt:

    make verify VERSION=$version COMMIT=$revision ARCHES='$ARCHES'${REGISTRY:+ REGISTRY=$REGISTRY}${SOURCE:+ SOURCE=$SOURCE} SUMS=$out/SHA256SUMS

To publish it, with the registry's and your own keys:

    git tag --sign $version $revision && git push origin $version
    cosign sign-blob --yes --bundle $out/SHA256SUMS.sigstore.json $out/SHA256SUMS
END
while read -r digest name; do
    echo "    skopeo copy --all --preserve-digests oci-archive:$out/${name%:*}-$version-oci.tar" \
        "docker://${REGISTRY:-REGISTRY}/$name"
    echo "    cosign sign --yes ${REGISTRY:-REGISTRY}/${name%:*}@$digest"
done <IMAGES.txt
