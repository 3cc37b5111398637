#!/bin/sh
# Applies manifests/ to the real API servers, in namespaces that enforce the restricted Pod Security Standard.
# Run by testing/controlplane/run.sh.
set -eu
cd "$(dirname "$0")/../manifests"

on() {
    cluster=$1
    shift
    kubectl --kubeconfig "$E2E_DIR/$cluster/admin.kubeconfig" --warnings-as-errors "$@"
}

# Creates a namespace that enforces the restricted standard.
restricted() {
    on managed create namespace "$1"
    on managed label namespace "$1" pod-security.kubernetes.io/enforce=restricted \
        pod-security.kubernetes.io/warn=restricted
}

# Creates a pod of the Deployment: no controller does so here, and the restricted standard only applies to pods.
pod_of() {
    spec=$(on managed -n "$1" get deployment "$2" -o 'jsonpath={.spec.template.spec}')
    echo "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"$2-0\"},\"spec\":$spec}" |
        on managed -n "$1" apply -f -
}

restricted my-addon
on hub create namespace cluster1
on managed apply -k addon-lease-controller
on hub apply -k addon-lease-controller/hub
pod_of my-addon my-addon

restricted open-cluster-management-agent
on managed apply -k hub-kubeconfig-dumper
pod_of open-cluster-management-agent my-agent
# The same with the init container instead of the sidecar.
on managed -n open-cluster-management-agent delete deployment my-agent
on managed -n open-cluster-management-agent delete pod my-agent-0 --now
copy=$(mktemp -d)
trap 'rm -r "$copy"' EXIT
mkdir "$copy/dumper" "$copy/agent"
cp hub-kubeconfig-dumper/* "$copy/dumper"
sed -i 's/path: sidecar.yaml/path: initcontainer.yaml/' "$copy/dumper/kustomization.yaml"
on managed apply -k "$copy/dumper"
pod_of open-cluster-management-agent my-agent

# In the same namespace, as next to OCM's own agents.
on managed apply -k csr-bootstrapper
on managed create namespace open-cluster-management-agent-addon
on managed apply -k csr-bootstrapper/addons
pod_of open-cluster-management-agent csr-bootstrapper
# The same with the dumper and an agent in the pod.
on managed -n open-cluster-management-agent delete deployment csr-bootstrapper
on managed -n open-cluster-management-agent delete pod csr-bootstrapper-0 --now
cp csr-bootstrapper/*.yaml "$copy/agent"
sed -i 's/^# \(patches:\|  - path: agent.yaml\)/\1/' "$copy/agent/kustomization.yaml"
on managed apply -k "$copy/agent"
pod_of open-cluster-management-agent csr-bootstrapper

# Next to them, with the hub's side.
on managed apply -k remote-sync
on hub apply -k remote-sync/hub
pod_of open-cluster-management-agent remote-sync
