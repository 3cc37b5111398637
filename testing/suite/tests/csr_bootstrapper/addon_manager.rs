//! OCM's addon-manager on the hub: it says what an add-on of a template needs, and approves and signs what is asked
//! for; the program gives the add-on its credentials.

use std::{fs, path::PathBuf, process::Command};

use apiclient::resource::Resource;
use serde_json::{Value, json};
use suite::{
    clock::Clock,
    eventually,
    identity::Data,
    needs::{Need, needs},
    ocm::{AVAILABLE, managements, reasons, templates},
    scene::{ADDON, Scene},
    spoke::Spoke,
    stays, within,
};

use crate::{
    addon_registration::support::{CUSTOM, KUBE_CLIENT, certificate, code, data},
    support::joined,
};

const WHY: &str = "OCM's addon-manager is there";

/// An add-on of a name that no other test here has: the hub knows it for all clusters.
struct Addon<'a> {
    spoke: &'a Spoke,
    name: String,
    namespace: String,
}

impl<'a> Addon<'a> {
    /// One of no template: its health is left to its Lease.
    fn plain(spoke: &'a Spoke, namespace: &str) -> Self {
        let addon = Self { spoke, name: ADDON.to_owned(), namespace: namespace.to_owned() };
        addon.manage(&json!({}));
        addon
    }

    /// One of a template with these registrations.
    fn of_template(spoke: &'a Spoke, registration: &Value) -> Self {
        let (namespace, name) = (spoke.addon_namespace(), format!("addon-{}", spoke.namespace));
        let addon = Self { spoke, name, namespace };
        // The namespace of its first Deployment is that of its Secrets.
        let labels = json!({"app": addon.name});
        let containers = json!([{"name": "app", "image": "example.com/none:1"}]);
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": addon.name, "namespace": addon.namespace},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        });
        let spec = json!({
            "addonName": addon.name, "registration": registration,
            "agentSpec": {"workload": {"manifests": [deployment]}},
        });
        addon.create(&templates(), &spec);
        let group = templates().group;
        let config = json!({"group": group, "resource": "addontemplates", "defaultConfig": {"name": addon.name}});
        addon.manage(&json!({"supportedConfigs": [config]}));
        addon
    }

    fn create(&self, kind: &Resource, spec: &Value) {
        let object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {"name": self.name}, "spec": spec,
        });
        self.spoke.hub.cluster.create(&kind.everywhere(), &object);
    }

    /// Tells the hub of it, and installs it on the cluster.
    fn manage(&self, spec: &Value) {
        self.create(&managements(), spec);
        self.spoke.hub.add_addon(&self.spoke.cluster, &self.name, &self.namespace);
    }

    fn secret(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    fn object(&self) -> Value {
        self.spoke.hub.addon(&self.spoke.cluster, &self.name).expect("the add-on")
    }

    /// Waits until a condition has this status; its reason. The manager may only just have started.
    #[track_caller]
    fn told(&self, kind: &str, status: &str) -> String {
        let reason = || {
            let addon = self.object();
            let all = addon["status"]["conditions"].as_array()?.clone();
            let condition = all.iter().find(|it| it["type"] == kind && it["status"] == status)?;
            condition["reason"].as_str().map(str::to_owned)
        };
        within(60, &format!("{kind} is {status}"), || reason().is_some());
        reason().expect("the condition")
    }

    /// The label on the cluster that Placements look at.
    #[track_caller]
    fn labelled(&self, value: &str) {
        let key = format!("feature.open-cluster-management.io/addon-{}", self.name);
        eventually(&format!("the label is {value}"), || {
            let cluster = self.spoke.hub.managed_cluster(&self.spoke.cluster)?;
            (cluster["metadata"]["labels"][&key] == value).then_some(())
        });
    }

    /// Waits until the hub lets it read its cluster's ConfigMaps, as its template says.
    #[track_caller]
    fn may_read(&self, data: &Data) {
        let path = format!("/api/v1/namespaces/{}/configmaps", self.spoke.cluster);
        within(60, "it has its rights", || code(data, &path) == 200);
    }
}

fn kube_client() -> Value {
    let permission =
        json!({"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "view"}});
    json!({"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}})
}

/// A signer of the add-on's own, whose authority the manager has.
fn custom_signer(spoke: &Spoke) -> Value {
    let directory = PathBuf::from(std::env::var_os("E2E_DIR").expect("E2E_DIR")).join("hub");
    let read = |name: &str| fs::read(directory.join(name)).expect("a file of the hub");
    let authority = [("tls.crt", read("ca.crt")), ("tls.key", read("ca.key"))];
    let authority = authority.map(|(key, value)| (key.to_owned(), value)).into();
    let namespace = spoke.hub.cluster.new_namespace("signers");
    spoke.hub.cluster.put_secret(&namespace, "authority", &authority);
    let signer =
        json!({"signerName": CUSTOM, "signingCA": {"name": "authority", "namespace": namespace}});
    json!({"type": "CustomSigner", "customSigner": signer})
}

/// Its CSRs, each with its signer.
fn csrs(addon: &Addon<'_>) -> Vec<(String, Value)> {
    let all = addon.spoke.hub.csrs_of(&addon.spoke.cluster).into_iter();
    let label = "open-cluster-management.io/addon-name";
    let ours = all.filter(|csr| csr["metadata"]["labels"][label] == addon.name.as_str());
    ours.map(|csr| (csr["spec"]["signerName"].as_str().unwrap_or_default().to_owned(), csr))
        .collect()
}

#[test]
fn template_add_on_gets_certificates_by_addon_manager() {
    if !needs(Need::Real, WHY) {
        return;
    }
    let (spoke, _agent) = joined("managed-addon", &[]);
    let addon = Addon::of_template(&spoke, &json!([kube_client(), custom_signer(&spoke)]));
    let installed = addon.told("RegistrationApplied", "True");
    assert_eq!(installed, "SetPermissionApplied");
    let (kubeconfig, issued) =
        certificate(&spoke.managed, &addon.namespace, &addon.secret("hub-kubeconfig"), None);
    let group =
        format!("system:open-cluster-management:cluster:{}:addon:{}", spoke.cluster, addon.name);
    assert!(issued.bearer.organizations.contains(&group), "{:?}", issued.bearer);
    assert!(issued.bearer.common_name.starts_with(&format!("{group}:agent:")));
    let custom = addon.secret("example.com-signer1-client-cert");
    certificate(&spoke.managed, &addon.namespace, &custom, None);
    for (signer, csr) in csrs(&addon) {
        assert_eq!(reasons(&csr), ["AutoApprovedByHubCSRApprovingController"], "{signer}");
    }
    assert_eq!(csrs(&addon).len(), 2);
    addon.may_read(&kubeconfig);
    addon.told("ClusterCertificateRotated", "True");
    assert_eq!(addon.object()["status"]["kubeClientDriver"], "csr");

    stays("its availability is the work agent's to tell", || {
        let conditions = addon.object()["status"]["conditions"].to_string();
        csrs(&addon).len() == 2 && !conditions.contains("ManagedClusterAddOnLease")
    });
}

#[test]
fn token_add_on_gets_its_account_by_addon_manager() {
    if !needs(Need::Real, WHY) {
        return;
    }
    let tokens = ["-addon-kubeclient-registration-auth", "token"];
    let (spoke, _agent) = joined("managed-token", &tokens);
    let addon = Addon::of_template(&spoke, &json!([kube_client()]));
    addon.told("TokenInfrastructureReady", "True");
    addon.told("TokenRefreshed", "True");
    let secret = addon.secret("hub-kubeconfig");
    let data = eventually("the Secret has a token", || {
        data(&spoke.managed, &addon.namespace, &secret).filter(|data| data.contains_key("token"))
    });
    addon.may_read(&data);
    let status = addon.object()["status"].clone();
    let user = format!("system:serviceaccount:{}:{}-agent", spoke.cluster, addon.name);
    let registration = json!({"signerName": KUBE_CLIENT, "subject": {"user": user}});
    assert_eq!(status["registrations"], json!([registration]));
    assert!(csrs(&addon).is_empty());
}

/// From the readiness of the add-on's pod to the label that Placements look at, by way of its Lease.
#[test]
fn addon_manager_leaves_availability_to_the_lease() {
    if !needs(Need::Real, WHY) {
        return;
    }
    let spoke = Spoke::auto("managed-lease");
    let Some(clock) = Clock::of(&spoke.command(0)) else { return };
    let agent = spoke.start_as(|command: &mut Command| {
        command.args(["-bootstrap-kubeconfig-secret", &spoke.bootstrap]);
        clock.give(command);
    });
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    let scene = Scene::new(&format!("{}-addons", spoke.namespace));
    spoke.allow_addons(&spoke.managed, &scene.namespace);
    let addon = Addon::plain(&spoke, &scene.namespace);
    let owner = || addon.object()["metadata"]["ownerReferences"][0]["kind"].clone();
    within(60, "the manager knows it", || owner() == "ClusterManagementAddOn");
    addon.told("Available", "Unknown");
    let sidecar = scene.start_managed(&["-lease-target", "managed"]);
    assert_eq!(addon.told("Available", "True"), "ManagedClusterAddOnLeaseUpdated");
    addon.labelled("available");
    scene.set_ready(false);
    sidecar.wait_for("reason=\"it is not Ready\"");
    let before = scene.managed_lease();
    // The 300 seconds that a Lease may age.
    clock.set(400);
    assert_eq!(addon.told("Available", "False"), "ManagedClusterAddOnLeaseUpdateStopped");
    addon.labelled("unhealthy");
    assert_eq!(scene.managed_lease(), before, "no renewal while its pod is not ready");
    clock.set(0);
    scene.set_ready(true);
    assert_eq!(addon.told("Available", "True"), "ManagedClusterAddOnLeaseUpdated");
    addon.labelled("available");
    assert_ne!(scene.managed_lease(), before);
    drop(agent);
}
