//! Tokens of add-ons, for which the hub makes a ServiceAccount: the real one has OCM's addon-manager for that, which is
//! played on the embedded server.

use serde_json::json;
use suite::{
    cluster::resource,
    eventually,
    needs::{Need, needs},
    real,
    spoke::Spoke,
    stays, within,
};

use super::support::*;
use crate::support::count;

pub(super) const TOKENS: &[&str] = &["-addon-kubeclient-registration-auth", "token"];

fn rbac(plural: &'static str, kind: &'static str) -> apiclient::resource::Resource {
    resource("rbac.authorization.k8s.io", plural, kind)
}

/// Waits until the hub's addon-manager has made the ServiceAccount, as it does once an add-on says that it wants tokens,
/// or has made it again.
pub(super) fn wait_for_infrastructure(spoke: &Spoke) {
    if !real() {
        return play_infrastructure(spoke);
    }
    let accounts = resource("", "serviceaccounts", "ServiceAccount");
    let name = format!("{ADDON}-agent");
    let is_told = || {
        let account = spoke.hub.cluster.get(&accounts.object(&spoke.cluster, &name))?;
        let uid = account["metadata"]["uid"].as_str()?.to_owned();
        let addon = spoke.hub.addon(&spoke.cluster, ADDON)?;
        addon["status"]["conditions"].to_string().contains(&uid).then_some(())
    };
    // It may only just have started.
    within(60, "the hub has made the ServiceAccount", || is_told().is_some());
}

/// What it does (ocm `pkg/addon/controllers/addontokeninfra`).
fn play_infrastructure(spoke: &Spoke) {
    let (hub, cluster) = (&spoke.hub.cluster, &spoke.cluster);
    let name = format!("{ADDON}-agent");
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": cluster},
    });
    let accounts = resource("", "serviceaccounts", "ServiceAccount");
    let account = hub.create(&accounts.collection(cluster), &account);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": name, "namespace": cluster},
        "rules": [{
            "apiGroups": [""], "resources": ["serviceaccounts/token"],
            "resourceNames": [name], "verbs": ["create"],
        }],
    });
    if hub.get(&rbac("roles", "Role").object(cluster, &name)).is_none() {
        hub.create(&rbac("roles", "Role").collection(cluster), &role);
        let group = format!("system:open-cluster-management:{cluster}");
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": cluster},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        });
        hub.create(&rbac("rolebindings", "RoleBinding").collection(cluster), &binding);
    }
    let uid = account["metadata"]["uid"].as_str().expect("a uid").to_owned();
    tell_ready(spoke, &uid);
}

fn tell_ready(spoke: &Spoke, uid: &str) {
    let message = format!("ServiceAccount {}/{ADDON}-agent (UID: {uid}) is ready", spoke.cluster);
    let condition = json!({
        "type": "TokenInfrastructureReady", "status": "True", "reason": "TokenInfrastructureReady",
        "message": message, "lastTransitionTime": "2026-11-23T00:00:00Z",
    });
    eventually("the hub is told", || {
        let addon = spoke.hub.addon(&spoke.cluster, ADDON)?;
        let mut all = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.retain(|known| known["type"] != "TokenInfrastructureReady");
        all.push(condition.clone());
        spoke.hub.set_addon_status(&spoke.cluster, ADDON, &json!({"conditions": all}));
        Some(())
    });
}

/// Waits for the token in the Secret, which is another one than `old`.
#[track_caller]
pub(super) fn token(spoke: &Spoke, namespace: &str, old: Option<&[u8]>) -> suite::identity::Data {
    eventually("the Secret has a token", || {
        let data = data(&spoke.managed, namespace, KUBE_CLIENT_SECRET)?;
        let token = data.get("token")?;
        (old != Some(token)).then(|| data.clone())
    })
}

#[test]
fn addon_token_registration() {
    let (spoke, agent, namespace) = stage("addon-token", TOKENS);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    has_driver(&spoke, "token");
    if !real() {
        agent.wait_for("the hub has not made its ServiceAccount yet");
    }
    wait_for_infrastructure(&spoke);
    let data = token(&spoke, &namespace, None);
    let keys: Vec<_> = data.keys().map(String::as_str).collect();
    assert_eq!(keys, ["cluster-name", "kubeconfig", "token"]);
    let kubeconfig = String::from_utf8_lossy(&data["kubeconfig"]);
    assert!(kubeconfig.contains("tokenFile: token"), "{kubeconfig}");
    let condition = told(&spoke, "TokenRefreshed", "True");
    assert_eq!(condition["reason"], "AddonTokenRefreshed");
    eventually("the hub knows the user", || {
        let addon = spoke.hub.addon(&spoke.cluster, ADDON)?;
        let user = format!("system:serviceaccount:{}:{ADDON}-agent", spoke.cluster);
        (addon["status"]["registrations"][0]["subject"] == json!({"user": user})).then_some(())
    });
    assert!(csrs(&spoke).is_empty());
    stays("the token stays", || {
        super::support::data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET).as_ref() == Some(&data)
    });
}

#[test]
fn addon_token_registration_of_another_service_account() {
    let (spoke, _agent, namespace) = stage("addon-account", TOKENS);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    wait_for_infrastructure(&spoke);
    let old = token(&spoke, &namespace, None);
    let accounts = resource("", "serviceaccounts", "ServiceAccount");
    let name = format!("{ADDON}-agent");
    spoke.hub.cluster.delete(&accounts.object(&spoke.cluster, &name));
    wait_for_infrastructure(&spoke);
    token(&spoke, &namespace, Some(&old["token"]));
}

#[test]
fn addon_token_registration_refused_is_told() {
    if !needs(Need::Embedded, "OCM's addon-manager makes the ServiceAccount at once") {
        return;
    }
    let (spoke, _agent, namespace) = stage("addon-no-token", TOKENS);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    tell_ready(&spoke, "nobody");
    let condition = told(&spoke, "TokenRefreshed", "False");
    assert_eq!(condition["reason"], "TokenCreationFailed");
    wait_for_infrastructure(&spoke);
    token(&spoke, &namespace, None);
    told(&spoke, "TokenRefreshed", "True");
}

/// The namespace comes with the ManifestWork of the add-on, after the add-on.
#[test]
fn token_without_a_namespace_is_requested_once() {
    if !needs(Need::Embedded, "rights are in a namespace that does not exist yet") {
        return;
    }
    let (spoke, agent, _) = stage("token-unsaved", TOKENS);
    let namespace = format!("{}-late", spoke.namespace);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    wait_for_infrastructure(&spoke);
    agent.wait_for_times("the credential of an add-on is not kept", 3);
    spoke.managed.create_namespace(&namespace);
    spoke.allow_addons(&spoke.managed, &namespace);
    token(&spoke, &namespace, None);
    assert_eq!(count(&spoke, "create serviceaccounts/token"), 1);
}

/// Of both kinds there is nothing left of the other.
#[test]
fn addon_token_registration_after_a_certificate_and_back() {
    let (spoke, mut agent, namespace) = stage("addon-switch", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    spoke.hub.approve_next(&spoke.cluster);
    certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    agent.stops_as_asked();
    let mut agent = spoke.start(TOKENS);
    has_driver(&spoke, "token");
    wait_for_infrastructure(&spoke);
    let data = token(&spoke, &namespace, None);
    assert!(!data.contains_key("tls.key"));
    agent.stops_as_asked();
    let _agent = spoke.start(&[]);
    has_driver(&spoke, "csr");
    spoke.hub.approve_next(&spoke.cluster);
    let (data, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert!(!data.contains_key("token"));
    assert_eq!(issued.bearer.common_name, user(&spoke));
}

/// A token that is gone or no token comes anew; what is next to it is put right with the same.
#[test]
fn addon_token_registration_repairs_its_secret() {
    let (spoke, _agent, namespace) = stage("addon-token-lost", TOKENS);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    wait_for_infrastructure(&spoke);
    let old = token(&spoke, &namespace, None);
    let secret = apiclient::resource::SECRETS.object(&namespace, KUBE_CLIENT_SECRET);
    spoke.managed.merge(&secret, &json!({"data": {"kubeconfig": "eA=="}}));
    let now = || data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
    eventually("it is whole again", || (now() == Some(old.clone())).then_some(()));
    spoke.managed.merge(&secret, &json!({"data": {"token": "eA=="}}));
    let is_jwt = |data: &suite::identity::Data| data["token"].starts_with(b"ey");
    eventually("there is another token", || now().filter(|data| is_jwt(data)));
}
