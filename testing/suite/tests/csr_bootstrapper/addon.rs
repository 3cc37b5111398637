//! Availability of add-ons, by the Leases that their agents renew.

use std::{
    process::Command,
    time::{Duration, SystemTime},
};

use apiclient::{resource::LEASES, time::micro_time};
use serde_json::{Value, json};
use suite::{
    clock::Clock,
    cluster::Cluster,
    eventually,
    needs::{Need, needs},
    ocm::{AVAILABLE, HOSTING_CLUSTER},
    pause, real,
    relay::Way,
    rights::revoke,
    sidecar::{Sidecar, bare, free_port, program},
    spoke::Spoke,
    stays,
};

use crate::support::{joined, joins, sent, words};

const ADDON: &str = "addon1";

/// A cluster with an add-on, whose agent is in a namespace of its own.
fn with_addon(name: &str) -> (Spoke, Sidecar, String) {
    let (spoke, agent) = joined(name, &[]);
    let namespace = spoke.addon_namespace();
    spoke.hub.add_addon(&spoke.cluster, ADDON, &namespace);
    (spoke, agent, namespace)
}

fn seconds_ago(seconds: u64) -> Value {
    json!(micro_time(SystemTime::now() - Duration::from_secs(seconds)))
}

/// The add-on's agent renewed its Lease then; it creates it the first time.
fn renew(cluster: &Cluster, namespace: &str, time: &Value) {
    let target = LEASES.object(namespace, ADDON);
    let spec = json!({"spec": {"renewTime": time}});
    if cluster.get(&target).is_some() {
        cluster.merge(&target, &spec);
        return;
    }
    let lease = json!({
        "apiVersion": LEASES.api_version(), "kind": "Lease",
        "metadata": {"name": ADDON, "namespace": namespace}, "spec": spec["spec"],
    });
    cluster.create(&target.siblings(), &lease);
}

/// Reason and message of the condition, once it has this status.
#[track_caller]
fn told(spoke: &Spoke, status: &str) -> (String, String) {
    let condition = spoke.hub.wait_for_addon(&spoke.cluster, ADDON, status);
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn texts(reason: &str, message: &str) -> (String, String) {
    (reason.to_owned(), message.to_owned())
}

#[test]
fn addon_lease_found_fresh_stale_and_gone() {
    let (spoke, _agent, namespace) = with_addon("addon-lease");
    let unknown =
        texts("ManagedClusterAddOnLeaseNotFound", "The status of addon1 add-on is unknown.");
    assert_eq!(told(&spoke, "Unknown"), unknown);
    let fresh = texts("ManagedClusterAddOnLeaseUpdated", "addon1 add-on is available.");
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    assert_eq!(told(&spoke, "True"), fresh);
    renew(&spoke.managed, &namespace, &seconds_ago(301));
    let stale = texts("ManagedClusterAddOnLeaseUpdateStopped", "addon1 add-on is not available.");
    assert_eq!(told(&spoke, "False"), stale);
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    assert_eq!(told(&spoke, "True"), fresh);
    spoke.managed.delete(&LEASES.object(&namespace, ADDON));
    assert_eq!(told(&spoke, "Unknown"), unknown);
    // The hub may know it under another name by then.
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    eventually("it is gone", || spoke.hub.addon(&spoke.cluster, ADDON).is_none().then_some(()));
}

/// The label is what Placements look at.
#[test]
fn addon_lease_the_hub_labels_the_cluster_by_it() {
    if !needs(Need::Real, "the hub's own controllers do that") {
        return;
    }
    let (spoke, _agent, namespace) = with_addon("addon-label");
    let label = |value: &str| {
        eventually(&format!("the label is {value}"), || {
            let cluster = spoke.hub.managed_cluster(&spoke.cluster)?;
            let labels = &cluster["metadata"]["labels"];
            (labels["feature.open-cluster-management.io/addon-addon1"] == value).then_some(())
        });
    };
    label("unreachable");
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    label("available");
    renew(&spoke.managed, &namespace, &seconds_ago(301));
    label("unhealthy");
}

#[test]
fn addon_lease_that_goes_stale_while_nobody_says_anything() {
    let spoke = Spoke::auto("addon-stale");
    let Some(clock) = Clock::of(&spoke.command(0)) else { return };
    let agent = spoke.start_as(|command: &mut Command| {
        command.args(["-bootstrap-kubeconfig-secret", &spoke.bootstrap]);
        clock.give(command);
    });
    let namespace = spoke.addon_namespace();
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    spoke.hub.add_addon(&spoke.cluster, ADDON, &namespace);
    renew(&spoke.managed, &namespace, &seconds_ago(290));
    told(&spoke, "True");
    // The rest of the 300 seconds passes.
    eventually("the add-on is stale", || {
        let addon = spoke.hub.addon(&spoke.cluster, ADDON)?;
        addon["status"]["conditions"]
            .to_string()
            .contains("ManagedClusterAddOnLeaseUpdateStopped")
            .then_some(())
    });
    told(&spoke, "False");
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    told(&spoke, "True");
    // As after a pause of the machine.
    clock.set(600);
    told(&spoke, "False");
    drop(agent);
}

/// What cannot be read may have been renewed all the while.
#[test]
fn addon_lease_that_no_way_leads_to_is_not_stale() {
    let (spoke, _agent, namespace) = with_addon("addon-away");
    renew(&spoke.managed, &namespace, &seconds_ago(292));
    told(&spoke, "True");
    spoke.managed_relay.set(Way::Closed);
    pause(9000);
    let condition = spoke.hub.wait_for_addon(&spoke.cluster, ADDON, "True");
    assert_eq!(condition["reason"], "ManagedClusterAddOnLeaseUpdated");
    spoke.managed_relay.set(Way::Open);
    told(&spoke, "False");
}

#[test]
fn addon_lease_moves_with_the_install_namespace() {
    let (spoke, _agent, namespace) = with_addon("addon-moved");
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    told(&spoke, "True");
    let other = spoke.addon_namespace();
    spoke.hub.set_addon_status(&spoke.cluster, ADDON, &json!({"namespace": other}));
    told(&spoke, "Unknown");
    renew(&spoke.managed, &other, &seconds_ago(0));
    told(&spoke, "True");
}

#[test]
fn addon_lease_hosted_is_on_the_management_cluster() {
    if !needs(Need::Embedded, "a third server is the spoke") {
        return;
    }
    let other = Cluster::embedded("spoke");
    let spoke = Spoke::auto("addon-hosted");
    let _agent = joins(&spoke, &["-spoke-kubeconfig", other.kubeconfig.to_str().expect("a path")]);
    let namespace = spoke.addon_namespace();
    let annotations = json!({HOSTING_CLUSTER: "hosting1"});
    spoke.hub.add_annotated_addon(&spoke.cluster, ADDON, &namespace, &annotations);
    let message = "The status of addon1 add-on is unknown. No lease found on hosting cluster \
                   \"hosting1\"; verify it matches the cluster where this managed cluster's \
                   klusterlet actually runs.";
    let unknown = texts("ManagedClusterAddOnLeaseNotFound", message);
    assert_eq!(told(&spoke, "Unknown"), unknown);
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    told(&spoke, "True");
    // The one that runs on the spoke has its Lease there.
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    spoke.hub.add_addon(&spoke.cluster, ADDON, &namespace);
    told(&spoke, "Unknown");
    other.create_namespace(&namespace);
    renew(&other, &namespace, &seconds_ago(0));
    told(&spoke, "True");
}

#[test]
fn addon_lease_that_may_not_be_read_says_nothing_until_it_may() {
    let (spoke, agent) = joined("revoked-addon", &[]);
    let namespace = spoke.addon_namespace();
    assert!(namespace.starts_with("revoked-"));
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    let role = "csr-bootstrapper";
    let get = revoke(&spoke.managed, &namespace, role, "get", "leases");
    spoke.hub.add_addon(&spoke.cluster, ADDON, &namespace);
    agent.wait_for("the Lease of an add-on cannot be read");
    let conditions = || {
        let addon = spoke.hub.addon(&spoke.cluster, ADDON).expect("the add-on");
        addon["status"]["conditions"].as_array().map_or(0, Vec::len)
    };
    stays("nothing is said", || conditions() == 0);
    get.grant();
    told(&spoke, "True");
}

#[test]
fn addon_lease_renewals_cost_the_hub_nothing() {
    if !needs(Need::Embedded, "requests are counted") {
        return;
    }
    let (spoke, _agent, namespace) = with_addon("addon-quiet");
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    told(&spoke, "True");
    pause(500);
    let to_addons = || {
        let requests = sent(&spoke).into_iter();
        requests.filter(|it| it.resource == "managedclusteraddons").map(|it| words(&it)).collect()
    };
    let before: Vec<String> = to_addons();
    for _ in 0..20 {
        renew(&spoke.managed, &namespace, &seconds_ago(0));
        pause(50);
    }
    let after: Vec<String> = to_addons();
    assert_eq!(before, after);
    let patches = before.iter().filter(|words| words.starts_with("patch")).count();
    assert!(patches <= 2, "{before:?}");
}

/// Two controllers of the hub may write this condition, and another agent.
#[test]
fn addon_lease_what_somebody_else_writes_is_put_right() {
    let (spoke, _agent, namespace) = with_addon("addon-fight");
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    told(&spoke, "True");
    let other = json!({"type": "Other", "status": "True", "reason": "Other", "message": "",
        "lastTransitionTime": "2026-11-23T00:00:00Z"});
    let wrong = json!({"type": "Available", "status": "Unknown", "reason": "Lost", "message": "",
        "lastTransitionTime": "2026-11-23T00:00:00Z"});
    let conditions = json!({"conditions": [other, wrong]});
    spoke.hub.set_addon_status(&spoke.cluster, ADDON, &conditions);
    told(&spoke, "True");
    let addon = spoke.hub.addon(&spoke.cluster, ADDON).expect("the add-on");
    assert_eq!(addon["status"]["conditions"][0], other, "that of others stays");
}

#[test]
fn addon_lease_without_the_feature_nothing_is_asked() {
    let (spoke, agent) = joined("addon-off", &["-feature-gates", "AddonManagement=false"]);
    spoke.hub.add_addon(&spoke.cluster, ADDON, "addons");
    let addon = || spoke.hub.addon(&spoke.cluster, ADDON).expect("the add-on");
    stays("nothing is said", || addon()["status"]["conditions"].is_null());
    if !real() {
        let requests = sent(&spoke);
        assert!(!requests.iter().any(|it| it.resource == "managedclusteraddons"));
    }
    drop(agent);
}

/// The sidecar keeps its Lease, and the agent reads it.
#[test]
fn addon_lease_of_the_sidecar() {
    let (spoke, _agent, namespace) = with_addon("addon-sidecar");
    told(&spoke, "Unknown");
    let port = free_port();
    let mut command = bare(&program("addon-lease-controller"));
    command.arg("-kubeconfig").arg(&spoke.managed.kubeconfig);
    command.args(["-lease-name", ADDON, "-lease-duration", "1", "-startup-delay", "0"]);
    command.args(["-metrics-port", &port.to_string()]).env("POD_NAMESPACE", &namespace);
    let _sidecar = Sidecar::spawn(command, port);
    told(&spoke, "True");
}
