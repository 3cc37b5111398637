//! The health of the cluster's API server as the hub is told.

use std::{process::Command, time::Instant};

use apiclient::resource::Resource;
use dev_apiserver::{Action, Rule};
use serde_json::Value;
use suite::{
    cluster::Cluster,
    eventually,
    listing::list,
    ocm::AVAILABLE,
    real,
    relay::{Relay, Way},
    sidecar::Sidecar,
    spoke::Spoke,
    stays, throughout, within,
};

use crate::support::{cluster, joined};

const ILL: &str = "The kube-apiserver is not ok, status code: 0, ";

fn available(spoke: &Spoke) -> (String, String, String) {
    spoke.hub.condition(&spoke.cluster, AVAILABLE).expect("the condition")
}

/// Reasons and types of the Events about it on the hub, in order.
fn events(spoke: &Spoke) -> Vec<(String, String)> {
    let events = Resource::v1("events.k8s.io", "events", "Event");
    let listed = list(&spoke.hub.cluster.client, &events.collection(&spoke.cluster), "");
    let mut events = listed.expect("the Events");
    events.retain(|event| event["reportingController"] == "csr-bootstrapper");
    events.sort_by_key(|event| event["eventTime"].as_str().map(str::to_owned));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events.iter().map(|event| (text(&event["reason"]), text(&event["type"]))).collect()
}

/// Waits for the end of the 20 s that a failure has to last.
#[track_caller]
fn becomes_false(spoke: &Spoke, since: Instant) -> String {
    within(60, "the failure is told", || available(spoke).0 == "False");
    assert!(since.elapsed().as_secs() >= 19, "{:?}", since.elapsed());
    let (_, reason, message) = available(spoke);
    assert_eq!(reason, "ManagedClusterKubeAPIServerUnavailable");
    message
}

#[test]
fn slow_failing_api_server_is_reported_after_20_s() {
    let (spoke, agent) = joined("down", &[]);
    let since = Instant::now();
    match &spoke.managed.embedded {
        Some(server) => {
            server.faults().add(Rule::new(ill()).resource("/livez"));
        }
        None => spoke.managed_relay.set(Way::Closed),
    }
    // Less than 20 s may be a restart.
    throughout(15_000, "it counts as available", || available(&spoke).0 == "True");
    let mut message = becomes_false(&spoke, since);
    if let Some(server) = &spoke.managed.embedded {
        assert_eq!(
            message,
            "The kube-apiserver is not ok, status code: 500, [-]etcd failed: reason withheld"
        );
        // In this order it is never well in between.
        spoke.managed_relay.set(Way::Closed);
        server.faults().clear();
        eventually("another failure is told", || available(&spoke).2 != message);
        message = available(&spoke).2;
    }
    assert!(message.starts_with(ILL), "{message}");
    assert_eq!(agent.ask("/healthz").0, 200, "that is no fault of this process");
    assert_eq!(agent.ask("/readyz").0, 200);
    let version = cluster(&spoke)["status"]["version"]["kubernetes"].clone();
    assert!(version.is_string(), "the version is not taken back");
    spoke.managed_relay.set(Way::Open);
    eventually("it is told", || available(&spoke).0 == "True");
    assert_eq!(available(&spoke).1, "ManagedClusterAvailable");
    let up = || ("Available".to_owned(), "Normal".to_owned());
    let down = ("Unavailable".to_owned(), "Warning".to_owned());
    let expected = [up(), down, up()];
    eventually("the people of the hub are told", || events(&spoke) == expected);
}

/// What a server with a failing check says.
fn ill() -> Action {
    let body = Some("[-]etcd failed: reason withheld\n".to_owned());
    Action::Answer { code: 500, body, retry_after: None }
}

#[test]
fn the_health_of_another_cluster_counts_where_it_is_named() {
    let other = if real() { Cluster::real("hub") } else { Cluster::embedded("spoke") };
    let way = Relay::to(&other.address);
    let spoke = Spoke::auto("hosted");
    let file = kubeconfig(&spoke, &other, &way);
    let agent = spoke.start_as(|command: &mut Command| {
        command.args(["-bootstrap-kubeconfig-secret", &spoke.bootstrap]);
        command.arg("-spoke-kubeconfig").arg(&file);
    });
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    looks_there_and_only_there(&agent, &spoke, &way);
    // What is not looked at may be away.
    spoke.managed_relay.set(Way::Closed);
    stays("it is available", || available(&spoke).0 == "True");
    let log = agent.log();
    assert!(!log.contains(ILL), "{log}");
    way.set(Way::Closed);
    agent.wait_for(ILL);
}

/// By the metrics: /livez and /version go to the other cluster, Secrets and Events do not.
#[track_caller]
fn looks_there_and_only_there(agent: &Sidecar, spoke: &Spoke, way: &Relay) {
    let sample = |host: String, target: &str| {
        format!(
            "rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"GET\",target=\"{target}\"}}"
        )
    };
    let there = sample(way.address.to_string(), "spoke");
    eventually("it looks at the other cluster", || agent.metric(&there) >= Some(3.0));
    let here = sample(spoke.managed_relay.address.to_string(), "management");
    let before = agent.metric(&here);
    eventually("and again", || agent.metric(&there) >= Some(5.0));
    assert_eq!(agent.metric(&here), before, "nothing is asked of its own cluster");
}

/// The administrator's way to the other cluster: who looks at its health needs no rights there.
fn kubeconfig(spoke: &Spoke, other: &Cluster, way: &Relay) -> std::path::PathBuf {
    let text = std::fs::read_to_string(&other.kubeconfig).expect("the kubeconfig");
    let text = text.replace(&other.address, &way.address.to_string());
    spoke.write("spoke.kubeconfig", &text)
}
