//! What the agent tells the hub of the cluster: its heartbeat, and the health of its API server. That a heartbeat
//! brings a lost cluster back is in smoke/outage.rs.

use std::time::Instant;

use apiclient::resource::Resource;
use dev_apiserver::Rule;
use serde_json::Value;
use suite::{
    eventually,
    faults::code,
    listing::list,
    needs::{Need, needs},
    ocm::{AVAILABLE, JOINED},
    relay::Way,
    spoke::Spoke,
    throughout, within,
};

use crate::support::{beats, beats_again, cluster, is_seen, joined, renews, sent};

// --- the heartbeat ---

/// The hub makes the Lease when it likes; the agent reads until then, and never makes it.
#[test]
fn first_heartbeat_follows_a_late_lease() {
    if !needs(Need::Embedded, "the real hub makes the Lease when it likes") {
        return;
    }
    let spoke = Spoke::auto("late");
    let faults = spoke.hub.cluster.faults();
    let away = || faults.add(Rule::new(code(404)).resource("leases").user(&spoke.user()));
    let late = away();
    let agent = spoke.start(&[]);
    eventually("it looks for the Lease twice", || faults.hits(late) > 1);
    faults.remove(late);
    eventually("the first heartbeat", || beats(&agent) >= 1.0);
    // The same with a Lease that is gone.
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beats_again(&agent, 1);
    let gone = away();
    agent.wait_for("lease renewal failed");
    eventually("it looks for the Lease twice", || faults.hits(gone) > 1);
    faults.remove(gone);
    eventually("it is renewed again", || agent.count("lease renewal recovered") == 1);
    assert!(sent(&spoke).iter().all(|it| it.verb != "create" || it.resource != "leases"));
}

#[test]
fn cluster_speaks_only_while_the_hub_accepts_it() {
    let spoke = Spoke::new("accepted");
    let agent = spoke.start(&[]);
    spoke.hub.approve_next(&spoke.cluster);
    agent.wait_for_code("/readyz", 200);
    throughout(1500, "nobody accepted the cluster, so it says nothing", || {
        [JOINED, AVAILABLE].iter().all(|kind| spoke.hub.condition(&spoke.cluster, kind).is_none())
            && beats(&agent) == 0.0
    });
    spoke.hub.accept(&spoke.cluster);
    is_seen(&spoke.hub, &spoke.cluster);
    eventually("the heartbeat begins", || beats(&agent) >= 1.0);
    eventually("an Event tells it", || spoke.count_events("ManagedClusterLeaseUpdateStarted") == 1);

    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beats_again(&agent, 2);
    spoke.hub.deny(&spoke.cluster);
    agent.wait_for("goes stale: the hub does not accept the cluster");
    let (metric, lease) = (beats(&agent), spoke.hub.heartbeat(&spoke.cluster));
    throughout(2500, "no heartbeat", || beats(&agent) == metric);
    assert_eq!(spoke.hub.heartbeat(&spoke.cluster), lease);
    assert_eq!(agent.ask("/readyz").0, 200, "the credential is as good as before");
    // Upstream's spelling.
    eventually("an Event tells it", || spoke.count_events("ManagedClusterLeaseUpdateStoped") == 1);
    spoke.hub.accept(&spoke.cluster);
    beats_again(&agent, 2);
    renews(&spoke);
}

// --- the API server ---

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

#[test]
fn failing_api_server_is_reported_after_20_s() {
    let (spoke, agent) = joined("down", &[]);
    let since = Instant::now();
    spoke.managed_relay.set(Way::Closed);
    // Less than 20 s may be a restart.
    throughout(15_000, "it counts as available", || available(&spoke).0 == "True");
    within(60, "the failure is told", || available(&spoke).0 == "False");
    assert!(since.elapsed().as_secs() >= 19, "{:?}", since.elapsed());
    let (_, reason, message) = available(&spoke);
    assert_eq!(reason, "ManagedClusterKubeAPIServerUnavailable");
    let start = "The kube-apiserver is not ok, status code: 0, ";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(agent.ask("/healthz").0, 200, "this process has no fault");
    assert_eq!(agent.ask("/readyz").0, 200);
    let version = cluster(&spoke)["status"]["version"]["kubernetes"].clone();
    assert!(version.is_string(), "the version is not taken back");
    spoke.managed_relay.set(Way::Open);
    eventually("it is told", || available(&spoke).0 == "True");
    let up = || ("Available".to_owned(), "Normal".to_owned());
    let down = ("Unavailable".to_owned(), "Warning".to_owned());
    let expected = [up(), down, up()];
    eventually("the people of the hub are told", || events(&spoke) == expected);
}
