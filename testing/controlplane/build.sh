#!/usr/bin/env bash
# Builds the programs of the control plane into a cache outside the clone, once
# for each go.mod and go.sum, and prints the directory they are in.
set -euo pipefail

say() { echo "controlplane: $*" >&2; }

if ! command -v go >/dev/null; then
    say "Go is missing: install it (https://go.dev/dl/) to build the control plane for the end-to-end tests."
    exit 1
fi
# Static programs need no C compiler, neither to be built nor on the machine that runs them.
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

if [ ! -d "$dir" ]; then
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/.controlplane-XXXXXX")
    trap 'rm -rf "$new"' EXIT

    packages=$(go list tool | sort)
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
        say "building $names from Go modules: about 6 minutes on two cores, once"
        version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod) # v1.MINOR.PATCH
        minor=${version#v1.}
        stamp=k8s.io/component-base/version
        # Without the stamp the programs would claim to be v0.0.0-master.
        go build -trimpath -o "$new/" -ldflags "-s -w -X $stamp.gitVersion=$version \
            -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}" "${missing[@]}"
        # Go names a program after its package, here go.etcd.io/etcd/server.
        [ ! -e "$new/server" ] || mv "$new/server" "$new/etcd"
    fi

    # The CRDs of an Open Cluster Management hub. Where an API version has a
    # successor, the successor's file comes later and has both versions.
    mkdir "$new/crds"
    go mod download open-cluster-management.io/api
    api=$(go list -m -f '{{.Dir}}' open-cluster-management.io/api)
    for crd in "$api"/*/v1*/*.crd.yaml; do
        install -m 644 "$crd" "$new/crds/"
    done

    # Only a complete directory gets the name; a concurrent build may have been faster.
    mv -T "$new" "$dir" 2>/dev/null || [ -d "$dir" ]
fi

# Part of this repository and small: Go knows when it is out of date (with a
# commit's hash in it, that would be after each commit).
go build -trimpath -buildvcs=false -o "$dir/boot" ./boot
echo "$dir"
