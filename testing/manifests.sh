#!/bin/sh
# Applies manifests/ to the real API servers, in a namespace that enforces the restricted Pod Security
# Standard; run by testing/controlplane/run.sh.
set -eu
cd "$(dirname "$0")/../manifests"

on() {
    cluster=$1
    shift
    kubectl --kubeconfig "$E2E_DIR/$cluster/admin.kubeconfig" --warnings-as-errors "$@"
}

on managed create namespace my-addon
on managed label namespace my-addon pod-security.kubernetes.io/enforce=restricted \
    pod-security.kubernetes.io/warn=restricted
on hub create namespace cluster1

on managed apply -k addon-lease-controller
on hub apply -k addon-lease-controller/hub

# No controller makes pods here, so this does; the restricted standard is enforced on pods only.
spec=$(on managed -n my-addon get deployment my-addon -o 'jsonpath={.spec.template.spec}')
echo "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"my-addon-0\"},\"spec\":$spec}" |
    on managed -n my-addon apply -f -
