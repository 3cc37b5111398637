//! A Secret that does not belong to this cluster keeps its content, whatever an add-on names: no CSR is posted for it,
//! and the add-on's condition says why.

use apiclient::resource::SECRETS;
use serde_json::{Value, json};
use suite::{eventually, spoke::BOOTSTRAP, stays};

use super::support::*;
use crate::support::{account, grant};

#[test]
fn secrets_of_others_are_left_whatever_an_add_on_names() {
    let (spoke, _agent, namespace) = stage("addon-conflict", &[]);
    // The klusterlet operator gives its agents all Secrets.
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    ]);
    let user = account(&spoke);
    grant(&spoke.managed, (&spoke.namespace, "operator"), ("User", &user), &rules);
    let put = |addon: &str, mut secret: Value| {
        secret["apiVersion"] = json!("v1");
        secret["kind"] = json!("Secret");
        secret["metadata"] = json!({"name": format!("{addon}-hub-kubeconfig")});
        spoke.managed.create(&SECRETS.collection(&namespace), &secret);
    };
    let theirs =
        json!({"cluster-name": "YQ==", "kubeconfig": "eA==", "tls.crt": "eA==", "tls.key": "eA=="});
    put("anothers", json!({"data": theirs}));
    put("nobodys", json!({"data": {"password": "eA=="}}));
    let pair = json!({"tls.crt": "eA==", "tls.key": "eA=="});
    put("typed", json!({"type": "kubernetes.io/tls", "data": pair}));
    // A write could never arrive.
    put("immutable", json!({"immutable": true}));
    assert_eq!(BOOTSTRAP, "bootstrap-hub-kubeconfig", "what an add-on of that name has");
    let conflicts = [
        (&*spoke.namespace, "bootstrap", "csr-bootstrapper's own"),
        (&*namespace, "anothers", "another cluster's"),
        (&*namespace, "nobodys", "no cluster-name"),
        (&*namespace, "typed", "is not Opaque"),
        (&*namespace, "immutable", "is immutable"),
    ];
    let versions = || {
        conflicts.map(|(namespace, addon, _)| {
            let name = format!("{addon}-hub-kubeconfig");
            let secret = spoke.managed.get(&SECRETS.object(namespace, &name)).expect("it stays");
            secret["metadata"]["resourceVersion"].clone()
        })
    };
    let before = versions();
    for (namespace, addon, _) in conflicts {
        add_another(&spoke.hub, &spoke.cluster, addon, namespace);
    }
    for (_, addon, words) in conflicts {
        eventually(&format!("the condition of {addon} says {words}"), || {
            let addon = spoke.hub.addon(&spoke.cluster, addon)?;
            addon["status"]["conditions"].as_array()?.iter().find_map(|it| {
                let is_it = it["status"] == "False" && it["reason"] == "SecretConflict";
                (is_it && it["message"].as_str()?.contains(words)).then_some(())
            })
        });
    }
    assert!(spoke.count_events("SecretConflict") > 0, "there is an Event too");
    stays("nothing is written or requested", || {
        spoke.hub.csrs_of(&spoke.cluster).len() == 1 && versions() == before
    });
    for (_, addon, _) in conflicts {
        spoke.hub.delete_addon(&spoke.cluster, addon);
    }
    stays("the Secrets outlive the add-ons", || versions() == before);
}
