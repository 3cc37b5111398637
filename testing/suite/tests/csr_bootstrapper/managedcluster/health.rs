//! The health of the cluster's API server, as reported to the hub.

use std::time::Instant;

use apiclient::resource::Resource;
use dev_apiserver::Rule;
use serde_json::Value;
use suite::{
    eventually, faults::answer, listing::list, ocm::AVAILABLE, relay::Way, spoke::Spoke,
    throughout, within,
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
            server.faults().add(
                Rule::new(answer(500, "[-]etcd failed: reason withheld\n")).resource("/livez"),
            );
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
    assert_eq!(agent.ask("/healthz").0, 200, "this process has no fault");
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
