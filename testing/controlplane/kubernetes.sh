#!/usr/bin/env bash
# Builds kube-apiserver, kube-controller-manager and kubectl of another version of Kubernetes into the cache, once, and
# prints their directory: KUBEBUILDER_ASSETS=$(testing/controlplane/kubernetes.sh v1.37.2) make e2e
set -euo pipefail

say() { echo "kubernetes.sh: $*" >&2; }

version=${1:-}
if ! [[ $version =~ ^v1\.([0-9]+)\.[0-9]+$ ]]; then
    say "usage: kubernetes.sh v1.MINOR.PATCH; there are:"
    go list -m -versions k8s.io/kubernetes >&2
    exit 2
fi
minor=${BASH_REMATCH[1]}
# As in build.sh.
export CGO_ENABLED=0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/spoke-sidecars
dir=$cache/kubernetes-$version
if [ -d "$dir" ]; then
    echo "$dir"
    exit
fi

mkdir -p "$cache"
new=$(mktemp -d "$cache/.kubernetes-XXXXXX")
trap 'rm -rf "$new"' EXIT
mkdir "$new/module" "$new/bin"
cd "$new/module"

go mod init throwaway 2>/dev/null
# The file that says which modules it keeps in its own staging folder: it requires them as v0.0.0, which exists nowhere,
# and they are published as v0.MINOR.PATCH.
file=$(go mod download -json "k8s.io/kubernetes@$version" | awk -F '"' '$2 == "GoMod" { print $4 }')
edits=$(awk -v version="v0.${version#v1.}" '$2 == "v0.0.0" && /k8s\.io/ { print "-replace=" $1 "=" $1 "@" version }' "$file")
# With the language version, the programs get the defaults of Go that it had: of TLS, for example.
# shellcheck disable=SC2086
go mod edit -go="$(awk '$1 == "go" { print $2 }' "$file")" $edits
packages=(k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager)
# The quick starts need kubectl 1.31; else it stays the one of build.sh.
[ "$minor" -lt 31 ] || packages+=(k8s.io/kubernetes/cmd/kubectl)
# Without a version, it would be the newest.
go get "${packages[@]/%/@$version}" >&2

say "building Kubernetes $version from Go modules (about 7 minutes on two cores, once)"
stamp=k8s.io/component-base/version
go build -trimpath -o "$new/bin/" -ldflags "-s -w -X $stamp.gitVersion=$version \
    -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor" "${packages[@]}"

# Rename only a complete directory; a concurrent build may have finished first.
mv -T "$new/bin" "$dir" 2>/dev/null || [ -d "$dir" ]
echo "$dir"
