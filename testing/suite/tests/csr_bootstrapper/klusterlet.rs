//! OCM's klusterlet operator itself: the program takes the flags that it renders, and the rights that it grants
//! suffice. Both agents run in its Deployments in pods/takeover.rs.

use std::fs;

use serde_json::{Value, json};
use suite::{
    audit::granted,
    needs::{Need, needs},
    rights::may,
    sidecar::{bare, program},
    spoke::{Spoke, addon_rights, cluster_rights, rights},
    within,
};

/// Without the operator, nothing here can run.
fn possible() -> bool {
    needs(Need::Real, "OCM's klusterlet operator is there")
}

/// The pod of the agent that the operator installs for a Klusterlet with these fields.
fn install(spoke: &Spoke, more: &Value) -> Value {
    spoke.install(&spoke.namespace, more)["spec"]["template"]["spec"].clone()
}

/// The command line of the pod's first container.
fn command_line(pod: &Value) -> Vec<&str> {
    let container = &pod["containers"][0];
    let lists = ["command", "args"].map(|list| container[list].as_array());
    lists.into_iter().flatten().flatten().map(|word| word.as_str().expect("a text")).collect()
}

/// The operator grants all that the manifests grant.
#[test]
fn klusterlet_rights_are_all_that_the_program_needs() {
    if !possible() {
        return;
    }
    let spoke = Spoke::for_klusterlet("rights");
    let pod = install(&spoke, &json!({}));
    let account = pod["serviceAccountName"].as_str().expect("a service account");
    let user = format!("system:serviceaccount:{}:{account}", spoke.namespace);
    let anywhere = spoke.managed.new_namespace("rights-anywhere");
    let parts = [
        (rights(), spoke.namespace.as_str()),
        (cluster_rights(), ""),
        (addon_rights(), &*anywhere),
    ];
    for (manifests, namespace) in parts {
        // The operator grants some of them after it has made the Deployment.
        for right in granted(&manifests) {
            within(30, &format!("{right:?} in {namespace:?}"), || {
                may(&spoke.managed, &user, namespace, &right)
            });
        }
    }
}

/// The operator renders these flags for such a Klusterlet, and the program takes its whole command line.
#[track_caller]
fn renders(spoke: &Spoke, more: &Value, flags: &[&str]) {
    let pod = install(spoke, more);
    let words = command_line(&pod);
    flags.iter().for_each(|flag| assert!(words.contains(flag), "{flag} in {words:?}"));
    // `-version` ends the program after it has read the flags.
    let output = bare(&program("csr-bootstrapper")).args(&words[1..]).arg("-version").output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
}

/// With all features, with several hubs, and in hosted mode, where the managed cluster is the management cluster, too.
#[test]
fn klusterlet_flags_are_taken() {
    if !possible() {
        return;
    }
    let feature = |name: &str| json!({"feature": name, "mode": "Enable"});
    let put = |spoke: &Spoke, name: &str, kubeconfig: Vec<u8>| {
        spoke.put_secret(name, &[("kubeconfig".to_owned(), kubeconfig)].into());
    };
    let more = json!({
        "externalServerURLs": [{"url": "https://spoke.example:6443"}],
        "registrationConfiguration": {
            "clientCertExpirationSeconds": 3600,
            "featureGates": [feature("ClusterClaim"), feature("AddonManagement")],
            "clusterAnnotations": {"agent.open-cluster-management.io/a": "b"},
            "clusterClaimConfiguration": {
                "maxCustomClusterClaims": 30, "reservedClusterClaimSuffixes": ["a.io", "b.io"],
            },
            "addOnKubeClientRegistrationDriver": {
                "authType": "csr", "token": {"expirationSeconds": 7200},
            },
        },
    });
    let flags = ["--client-cert-expiration-seconds=3600", "--max-custom-cluster-claims=30"];
    renders(&Spoke::for_klusterlet("default"), &more, &flags);

    let spoke = Spoke::for_klusterlet("hubs");
    for name in ["hub-a", "hub-b"] {
        put(&spoke, name, spoke.bootstrap_kubeconfig().into_bytes());
    }
    let secrets = json!([{"name": "hub-a"}, {"name": "hub-b"}]);
    let local = json!({"kubeConfigSecrets": secrets, "hubConnectionTimeoutSeconds": 200});
    let more = json!({"registrationConfiguration": {
        "featureGates": [feature("MultipleHubs")],
        "bootstrapKubeConfigs": {"type": "LocalSecrets", "localSecretsConfig": local},
    }});
    let flags = [
        "--bootstrap-kubeconfigs=/spoke/hub-a/kubeconfig",
        "--bootstrap-kubeconfigs=/spoke/hub-b/kubeconfig",
        "--hub-connection-timeout-seconds=200",
        "--feature-gates=MultipleHubs=true",
    ];
    renders(&spoke, &more, &flags);

    let spoke = Spoke::for_klusterlet("hosted");
    let kubeconfig = fs::read(&spoke.managed.kubeconfig).expect("the kubeconfig");
    put(&spoke, "external-managed-kubeconfig", kubeconfig);
    let namespace = spoke.managed.new_namespace("open-cluster-management-hosted-spoke");
    let more = json!({"namespace": namespace, "deployOption": {"mode": "Hosted"}});
    let flags = [
        "--spoke-kubeconfig=/spoke/config/kubeconfig",
        "--terminate-on-files=/spoke/config/kubeconfig",
    ];
    renders(&spoke, &more, &flags);
}
