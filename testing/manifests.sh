#!/bin/sh
# Applies to the real API servers what tests/pods runs no pod of: an overlay, the hub's objects, monitoring; and what the
# components make of others' Deployments, field by field. Run by testing/controlplane/run.sh.
set -eu
cd "$(dirname "$0")/../manifests"

on() {
    cluster=$1
    shift
    kubectl --kubeconfig "$E2E_DIR/$cluster/admin.kubeconfig" --warnings-as-errors "$@"
}

on managed apply -k namespaces
on managed apply -k networkpolicy
on managed apply -k klusterlet-agent

# An overlay changes the cluster's name and the image.
kubectl kustomize examples/overlay | grep -c 'spoke-sidecars:v0.1.0$\|value: berlin-1$' | grep -qx 2
on managed apply --dry-run=server -k examples/overlay

on hub create namespace cluster1

# For the hub as a whole; nobody acts on these here.
on hub apply --server-side -f "$E2E_ASSETS/crds"
on hub wait --for=condition=Established crd --all
on hub apply -k hub
on hub apply -k remote-sync/addon
on hub apply -k addon-lease-controller/hub
on hub apply -f hub/manifestworkreplicaset.yaml

# PodMonitor and PrometheusRule as Prometheus Operator defines them. Of its module only these files are used, and the sum
# is here as nothing else would hold it.
operator=github.com/prometheus-operator/prometheus-operator@v0.93.1
sum=h1:4Juk8v93RdG1DSGD/mGp+SeQKPmnlLIj2iq3blLZgFY=
module=$(go mod download -json $operator)
echo "$module" | grep -q "\"Sum\": \"$sum\"" || { echo "manifests.sh: $operator is not $sum" >&2; exit 1; }
definitions=$(echo "$module" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/example/prometheus-operator-crd
on managed apply --server-side -f "$definitions/monitoring.coreos.com_podmonitors.yaml" \
    -f "$definitions/monitoring.coreos.com_prometheusrules.yaml"
on managed wait --for=condition=Established crd --all
on managed apply -k monitoring
on managed apply -k monitoring/operator

# Components, in Deployments of others.
fail() { echo "manifests.sh: $*" >&2; exit 1; }

# Whether a field of a Deployment in the namespace foreign has this value.
check() {
    is=$(on managed -n foreign get deployment "$1" -o "jsonpath={$2}")
    [ "$is" = "$3" ] || fail "$1 has $2 = $is, not $3"
}

# Whether the ServiceAccount foreign:$1 may do the rest.
may() {
    account=$1
    shift
    # It warns that nodes have no namespace.
    kubectl --kubeconfig "$E2E_DIR/managed/admin.kubeconfig" auth can-i --quiet \
        --as="system:serviceaccount:foreign:$account" "$@" ||
        fail "$account may not $*"
}

on managed create namespace foreign
pod=.spec.template.spec
for part in lease agent; do
    on managed apply -k ../testing/foreign/$part
    check $part-app $pod.serviceAccountName $part-reader
    check $part-app $pod.automountServiceAccountToken false
    check $part-app $pod.containers[0].name app
    check $part-app $pod.containers[0].volumeMounts[0].mountPath /data
    check $part-app ".spec.template.metadata.annotations['kubectl\.kubernetes\.io/default-container']" app
    check $part-app .spec.template.metadata.annotations.team others
    check $part-app .metadata.labels.team others
done
check lease-app "$pod.containers[*].name" "app second addon-lease-controller"
check lease-app "$pod.containers[2].env[0].value" foreign-addon
check lease-app "$pod.containers[2].terminationMessagePolicy" FallbackToLogsOnError
may lease-reader -n foreign update leases.coordination.k8s.io/foreign-addon
may lease-reader -n foreign watch pods
# The dumper last: it waits for what the other one writes.
check agent-app "$pod.initContainers[*].name" "csr-bootstrapper hub-kubeconfig-dumper prepare"
check agent-app "$pod.initContainers[0].env[0].value" cluster7
check agent-app "$pod.initContainers[*].terminationMessagePolicy" \
    "FallbackToLogsOnError FallbackToLogsOnError File"
check agent-app "$pod.containers[0].volumeMounts[1].mountPath" /spoke/hub-kubeconfig
check agent-app "$pod.containers[0].volumeMounts[1].readOnly" true
may agent-reader -n foreign update secrets/hub-kubeconfig-secret
may agent-reader watch nodes
