#!/usr/bin/env bash
# Builds IMAGE for ARCH from ROOTS with docker, podman or buildah, whichever is installed. The tools put no timestamps
# into the image, so the same programs give the same image.
# Usage: image.sh ARCH ROOTS IMAGE
set -euo pipefail
cd "$(dirname "$0")/../.."
. .ci/release/target.sh "$1"
if docker info >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1; then
    export DOCKER_BUILDKIT=1
    tool=(docker build)
elif command -v podman >/dev/null; then
    tool=(podman build --timestamp 0)
elif command -v buildah >/dev/null; then
    tool=(buildah)
    buildah info >/dev/null 2>&1 || tool+=(--storage-driver vfs)
    tool+=(bud --isolation chroot --timestamp 0)
else
    echo "No image built: found no docker daemon with buildx, podman or buildah."
    exit 0
fi
set -x
"${tool[@]}" --platform "linux/$platform" --build-context "roots=$2" -t "$3" .
