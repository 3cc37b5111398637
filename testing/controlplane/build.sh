#!/usr/bin/env bash
# Builds the programs of the control plane, and with NODE set those of a node, into a cache outside the clone, once
# for each version of go.mod and go.sum, and prints their directory.
set -euo pipefail

say() { echo "controlplane: $*" >&2; }

if ! command -v go >/dev/null; then
    say "Go is missing; the end-to-end tests need it to build the control plane: https://go.dev/dl/"
    exit 1
fi
# Static programs need no C compiler to build and no C library to run.
export CGO_ENABLED=0

given=${KUBEBUILDER_ASSETS:-}
if [ -n "$given" ] && ! given=$(cd "$given" >/dev/null && pwd); then
    say "KUBEBUILDER_ASSETS must be a directory."
    exit 1
fi
cd "$(dirname "$0")"
hash=$( (cat go.mod go.sum && printf %s "$given") | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/spoke-sidecars
dir=$cache/controlplane-$hash

of_node='/(kubelet|kube-scheduler)$'

# A directory beside the cache's others, which may be renamed to one of them.
prepare() {
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/.controlplane-XXXXXX")
    trap 'rm -rf "$new"' EXIT
}

# Builds packages into it. Without the stamp, the programs would report v0.0.0-master.
build() {
    version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod) # v1.MINOR.PATCH
    minor=${version#v1.}
    stamp=k8s.io/component-base/version
    go build -trimpath -o "$new/" -ldflags "-s -w -X $stamp.gitVersion=$version \
        -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}" "$@"
}

if [ ! -d "$dir" ]; then
    prepare
    packages=$(go list tool | grep -vE "$of_node" | sort)
    missing=()
    names=
    for package in $packages; do
        name=${package##*/}
        case $package in */etcd/server/*) name=etcd ;; esac
        if [ -n "$given" ] && [ -x "$given/$name" ]; then
            say "using $given/$name"
            ln -s "$given/$name" "$new/$name"
        else
            missing+=("$package")
            names+="${names:+, }$name"
        fi
    done

    if [ -n "$names" ]; then
        say "building $names from Go modules (about 7 minutes on two cores, once)"
        build "${missing[@]}"
        # Go names a program after its package, which is go.etcd.io/etcd/server for etcd.
        [ ! -e "$new/server" ] || mv "$new/server" "$new/etcd"
    fi

    # The CRDs of an Open Cluster Management hub. If an API has a newer version,
    # the newer file comes later and contains both.
    mkdir "$new/crds"
    go mod download open-cluster-management.io/api
    api=$(go list -m -f '{{.Dir}}' open-cluster-management.io/api)
    for crd in "$api"/*/v1*/*.crd.yaml; do
        install -m 644 "$crd" "$new/crds/"
    done

    # Rename only a complete directory; a concurrent build may have finished first.
    mv -T "$new" "$dir" 2>/dev/null || [ -d "$dir" ]
fi

if [ -n "${NODE:-}" ] && [ ! -x "$dir/kubelet" ]; then
    prepare
    say "building kubelet and kube-scheduler from Go modules (about 2 minutes on two cores, once)"
    # shellcheck disable=SC2046
    build $(go list tool | grep -E "$of_node")
    # kubelet last: with it all are there.
    mv "$new/kube-scheduler" "$dir/"
    mv "$new/kubelet" "$dir/"
fi

# boot is small, and Go knows when it is out of date. With a commit hash in it,
# that would be after every commit.
go build -trimpath -buildvcs=false -o "$dir/boot" ./boot
echo "$dir"
