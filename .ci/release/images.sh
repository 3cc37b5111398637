#!/usr/bin/env bash
# Writes the images to DIRECTORY, each as an archive of an OCI index for all ARCHES: one of each PROGRAM and one of all.
# Their files are in WORK/roots/ARCH. IMAGES.txt lists the digests.
# Usage: images.sh DIRECTORY WORK VERSION REVISION PROGRAM...; ARCHES, SOURCE, SOURCE_DATE_EPOCH
set -euo pipefail
cd "$(dirname "$0")/../.."
directory=$1 work=$2 version=$3 revision=$4
shift 4

# A storage of its own: nothing of other builds comes in, and nothing is left behind.
tool=(buildah --storage-driver vfs --root "$work/storage" --runroot "$work/runroot")
mkdir "$work/empty"

# build IMAGE DESCRIPTION [OPTION...]
build() {
    local image=$1 description=$2 arch layout=$work/oci/$1
    shift 2
    "${tool[@]}" manifest create "$image" >/dev/null
    local facts=(
        "title=$image" "description=$description" "version=$version" "revision=$revision" "licenses=Apache-2.0"
        ${SOURCE:+"source=$SOURCE"} ${SOURCE:+"url=$SOURCE"}
    )
    local labels=("${facts[@]/#/--label=org.opencontainers.image.}")
    local annotations=("${facts[@]/#/--annotation=org.opencontainers.image.}")
    for arch in $ARCHES; do
        . .ci/release/target.sh "$arch"
        "${tool[@]}" bud --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --format oci \
            --platform "linux/$platform" --manifest "$image" "$@" \
            "${labels[@]}" "${annotations[@]}" \
            --build-context "roots=$work/roots/$arch" --file Dockerfile "$work/empty" >/dev/null
    done
    mkdir -p "$work/oci"
    "${tool[@]}" manifest push --quiet --all "$image" "oci:$layout:$image:$version" >/dev/null
    tar --create --directory "$layout" --sort name --mtime "@$SOURCE_DATE_EPOCH" --owner 0 --group 0 \
        --numeric-owner --mode 'u=rwX,go=rX' --format ustar --file "$directory/$image-$version-oci.tar" .
    echo "$(grep -o '"digest":"sha256:[0-9a-f]*"' "$layout/index.json" | cut -d '"' -f 4) $image:$version" \
        >>"$directory/IMAGES.txt"
}

for program; do
    build "$program" "$(sed -n 's/^description = "\(.*\)"/\1/p' "bins/$program/Cargo.toml")" --target "$program"
done
build spoke-sidecars "The programs of spoke-sidecars in one image; name the one to run"
