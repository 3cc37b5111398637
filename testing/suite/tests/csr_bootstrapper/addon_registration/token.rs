//! Tokens of add-ons, for which OCM's addon-manager creates a ServiceAccount on the hub. It is emulated here; OCM's own
//! tests have the real one.

use apiclient::resource::SECRETS;
use serde_json::json;
use suite::{
    cluster::resource,
    eventually,
    identity::Data,
    needs::{Need, needs},
    spoke::Spoke,
    stays,
};

use super::{certificate::keys, support::*};
use crate::support::grant;

const TOKENS: &[&str] = &["-addon-kubeclient-registration-auth", "token"];

/// What OCM's addon-manager does once an add-on wants tokens (ocm `pkg/addon/controllers/addontokeninfra`).
fn play_infrastructure(spoke: &Spoke) {
    let (hub, cluster, name) = (&spoke.hub.cluster, &spoke.cluster, format!("{ADDON}-agent"));
    let accounts = resource("", "serviceaccounts", "ServiceAccount");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    let account = hub.create(&accounts.collection(cluster), &account);
    let roles = resource("rbac.authorization.k8s.io", "roles", "Role");
    if hub.get(&roles.object(cluster, &name)).is_none() {
        let rules = json!([{
            "apiGroups": [""], "resources": ["serviceaccounts/token"],
            "resourceNames": [name], "verbs": ["create"],
        }]);
        let group = format!("system:open-cluster-management:{cluster}");
        grant(hub, (cluster, &name), ("Group", &group), &rules);
    }
    let uid = account["metadata"]["uid"].as_str().expect("a uid");
    let condition = json!({
        "type": "TokenInfrastructureReady", "status": "True", "reason": "TokenInfrastructureReady",
        "message": format!("ServiceAccount {cluster}/{name} (UID: {uid}) is ready"),
        "lastTransitionTime": "2026-11-23T00:00:00Z",
    });
    eventually("the hub is told", || {
        let addon = spoke.hub.addon(cluster, ADDON)?;
        let mut all = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.retain(|known| known["type"] != "TokenInfrastructureReady");
        all.push(condition.clone());
        spoke.hub.set_addon_status(cluster, ADDON, &json!({"conditions": all}));
        Some(())
    });
}

/// Waits for the token in the Secret, which is another one than `old`.
#[track_caller]
fn token(spoke: &Spoke, namespace: &str, old: Option<&[u8]>) -> Data {
    eventually("the Secret has a token", || {
        let data = spoke.managed.read_secret(namespace, KUBE_CLIENT_SECRET)?;
        let token = data.get("token")?;
        (old != Some(token)).then(|| data.clone())
    })
}

/// Keys beside the token are repaired with the same token. A broken token, or one of a deleted account, is replaced.
#[test]
fn addon_token_registration() {
    if !needs(Need::Embedded, "the hub's addon-manager is played") {
        return;
    }
    let (spoke, agent, namespace) = stage("addon-token", TOKENS);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    has_driver(&spoke, "token");
    agent.wait_for("the hub has not made its ServiceAccount yet");
    play_infrastructure(&spoke);
    let first = token(&spoke, &namespace, None);
    assert_eq!(keys(&first), ["cluster-name", "kubeconfig", "token"]);
    let kubeconfig = String::from_utf8_lossy(&first["kubeconfig"]);
    assert!(kubeconfig.contains("tokenFile: token"), "{kubeconfig}");
    let condition = told(&spoke, "TokenRefreshed", "True");
    assert_eq!(condition["reason"], "AddonTokenRefreshed");
    eventually("the hub knows the user", || {
        let addon = spoke.hub.addon(&spoke.cluster, ADDON)?;
        let user = format!("system:serviceaccount:{}:{ADDON}-agent", spoke.cluster);
        (addon["status"]["registrations"][0]["subject"] == json!({"user": user})).then_some(())
    });
    assert!(csrs(&spoke).is_empty());
    let now = || spoke.managed.read_secret(&namespace, KUBE_CLIENT_SECRET);
    stays("the token stays", || now().as_ref() == Some(&first));

    let secret = SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.merge(&secret, &json!({"data": {"kubeconfig": "eA=="}}));
    eventually("it is whole again", || now().as_ref() == Some(&first));
    spoke.managed.merge(&secret, &json!({"data": {"token": "eA=="}}));
    let other = eventually("there is another token", || {
        now().filter(|data| data["token"].starts_with(b"ey"))
    });
    let accounts = resource("", "serviceaccounts", "ServiceAccount");
    spoke.hub.cluster.delete(&accounts.object(&spoke.cluster, &format!("{ADDON}-agent")));
    play_infrastructure(&spoke);
    token(&spoke, &namespace, Some(&other["token"]));
}
