//! Flag table: the registration agent's flags and defaults (ocm `pkg/common/options`,
//! `pkg/registration/spoke/options.go`, `pkg/registration/register/factory/options.go`), its flags without
//! an effect here, and this program's own.

use sidecar::{
    flag_rows,
    flags::{Flag, WAIT_TIMEOUT, common},
    leadership,
};

/// The default Secret with the bootstrap kubeconfig, as in the klusterlet operator.
pub(super) const BOOTSTRAP_SECRET: &str = "bootstrap-hub-kubeconfig";

/// Returns all flags, with the defaults of the program's own command line or of `registration agent`.
pub(crate) fn table(is_agent: bool) -> Vec<Flag> {
    let mut table = own();
    table.extend(WAIT_TIMEOUT);
    table.extend(leadership::flags(["137s", "107s", "26s"]));
    // Each program has its own port: they may share a pod.
    table.extend(common("8385"));
    if is_agent {
        for flag in &mut table {
            let default = AGENT_DEFAULTS.iter().find(|(name, _)| *name == flag.name);
            flag.default = default.map_or(flag.default, |(_, default)| default);
        }
    }
    table
}

/// The defaults of `registration agent` that differ. It writes files itself, and its Deployment has these volumes (ocm
/// `manifests/klusterlet/management/klusterlet-registration-deployment.yaml`).
pub(super) const AGENT_DEFAULTS: [(&str, &str); 4] = [
    ("bootstrap-kubeconfig", "/spoke/bootstrap/kubeconfig"),
    ("hub-kubeconfig-dir", "/spoke/hub-kubeconfig"),
    // library-go `pkg/controller/controllercmd/flags.go`.
    ("listen", "0.0.0.0:8443"),
    ("write-files", "true"),
];

/// Returns the registration agent's flags and this program's own; flags without effect here are last.
fn own() -> Vec<Flag> {
    flag_rows! {
        ["Cluster on the hub"]
        "agent-id" String "" =>
            "Last part of the agent's user name on the hub (default: as stored, else generated).";
        "cluster-annotations" List "" =>
            "Annotations k=v,... of the ManagedCluster; only keys that start with agent.open-cluster-management.io.";
        "cluster-name" String "" =>
            "Name of the cluster on the hub (default: as stored, else generated).";
        "feature-gates" List "" =>
            "Features Name=true|false,...: AddonManagement and ClusterClaim (default true), ClusterProperty and MultipleHubs (default false).";
        "managed-namespaces" Bool "true" =>
            "Create and label the namespaces that the hub's cluster sets manage.";
        "max-custom-cluster-claims" Int "20" =>
            "ClusterClaims to report besides the reserved ones.";
        "report-capacity" Bool "true" =>
            "Report what the cluster's nodes have together: capacity and allocatable.";
        "reserved-cluster-claim-suffixes" List "" =>
            "Ends of names of ClusterClaims that are always reported.";
        "spoke-cluster-name" Alias "cluster-name" => "";
        "spoke-external-server-urls" List "" =>
            "https URLs of this cluster's API server, for the ManagedCluster.";

        ["Hub and credential"]
        "bootstrap-kubeconfig" String "" =>
            "File with the bootstrap kubeconfig, instead of the Secret; re-read when it changes.";
        "bootstrap-kubeconfig-secret" List BOOTSTRAP_SECRET =>
            "Secret with the bootstrap kubeconfig, in the program's namespace; with MultipleHubs several, most preferred first.";
        "bootstrap-kubeconfigs" List "" =>
            "With MultipleHubs: files with the bootstrap kubeconfigs, most preferred first, instead of the Secrets.";
        "client-cert-expiration-seconds" Int "0" =>
            "Lifetime of the certificate to request, at least 3600; 0 leaves it to the hub.";
        "hub-connection-timeout-seconds" Int "600" =>
            "With MultipleHubs: seconds without a heartbeat on the hub before another one is selected.";
        "hub-kubeconfig-dir" String "" =>
            "Directory of the Secret's files, which -write-files writes.";
        "hub-kubeconfig-secret" String "hub-kubeconfig-secret" =>
            "Secret for the hub kubeconfig, certificate and key, in the program's namespace.";
        "registration-auth" String "csr" => "How to register; only csr is supported.";
        "write-files" Bool "false" =>
            "Write the files of -hub-kubeconfig-dir while this replica leads; /readyz waits for them.";

        ["Add-ons"]
        "addon-kubeclient-registration-auth" String "csr" =>
            "How agents of add-ons authenticate to the hub's API server: csr or token.";
        "addon-token-expiration-seconds" Int "31536000" =>
            "Lifetime of the tokens to request for add-ons, at least 600.";

        ["Single run"]
        "once" Bool "false" =>
            "Exit once the Secret holds a valid certificate, for an init container; no leader election.";

        ["Replicas"]
        "disable-leader-election" Bool "false" => "Do not elect a leader (single replica).";

        ["Connections"]
        "cluster-healthcheck-period" Duration "1m" =>
            "Interval between health checks of this cluster's API server.";
        "spoke-kubeconfig" String "" =>
            "Kubeconfig of the cluster that joins, if it is not the local one.";

        ["Endpoints and log"]
        "listen" String "" =>
            "Also serve the endpoints by HTTPS on this address:port, with a self-signed certificate.";

        ["Without effect"]
        "hub-kube-api-burst" Ignored "" => FEW_REQUESTS;
        "hub-kube-api-qps" Ignored "" => FEW_REQUESTS;
        "kube-api-burst" Ignored "" => FEW_REQUESTS;
        "kube-api-qps" Ignored "" => FEW_REQUESTS;
        "log-flush-frequency" Ignored "" => ONE_LOG;
        "terminate-on-files" Ignored "" => "changed files are read again without a restart.";
        "tls-cipher-suites" Ignored "" => ONE_TLS;
        "tls-min-version" Ignored "" => ONE_TLS;
        "vmodule" Ignored "" => ONE_LOG;

        ["Rejected"]
        "config" Refused "" =>
            "the address in such a file is the flag -listen.";
        "grpc-bootstrap-config" Refused "" => BY_CSR;
        "grpc-config" Refused "" => BY_CSR;
        "hub-cluster-arn" Refused "" => BY_CSR;
        "hub-kubeconfig" Refused "" => "the kubeconfig is kept in -hub-kubeconfig-secret.";
        "managed-cluster-arn" Refused "" => BY_CSR;
        "managed-cluster-role-suffix" Refused "" => BY_CSR;
    }
    .into()
}

const FEW_REQUESTS: &str = "requests are few, and each loop has a pace of its own.";
const ONE_LOG: &str = "lines are written immediately, and -v is for all of them.";
const ONE_TLS: &str = "-listen serves TLS 1.3 alone, whose suites are not for choice.";
const BY_CSR: &str = "registration is by CSR alone.";
