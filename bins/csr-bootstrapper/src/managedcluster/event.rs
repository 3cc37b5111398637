//! Events on the hub, in the cluster's namespace, about a change of its availability.

use std::time::SystemTime;

use apiclient::{client::Client, log_object, resource::Resource, time::micro_time};
use log::Level;
use serde_json::{Value, json};

use super::health::AVAILABLE;
use crate::conditions::has;

/// The hub lets an agent create Events by this API alone (ocm
/// `pkg/registration/hub/manifests/rbac/managedcluster-registration-clusterrole.yaml`).
static EVENTS: Resource = Resource::v1("events.k8s.io", "events", "Event");
const CONTROLLER: &str = "csr-bootstrapper";
/// Of `reportingInstance` (kubernetes `pkg/apis/core/validation/events.go`, ReportingInstanceLengthLimit).
const MAX_INSTANCE: usize = 128;

/// Writes the Event for the change of a ManagedCluster from `before` to `after` a write of ours; a failed Event
/// stops nothing.
pub(super) fn write(client: &Client, agent: &str, before: &Value, after: &Value) {
    let Some(event) = available(agent, before, after, SystemTime::now()) else { return };
    let namespace = after["metadata"]["name"].as_str().unwrap_or_default();
    let target = EVENTS.collection(namespace);
    if let Err(error) = client.create(&target, &event) {
        log_object!(Level::Debug, target, error:% = error; "the Event is not written");
    }
}

/// The Event in upstream's words (ocm `pkg/registration/spoke/managedcluster/status_controller.go`,
/// sendAvailableConditionEvent).
fn available(agent: &str, before: &Value, after: &Value, now: SystemTime) -> Option<Value> {
    let becomes = |status| has(after, AVAILABLE, status) && !has(before, AVAILABLE, status);
    let cluster = &after["metadata"];
    let name = cluster["name"].as_str()?;
    let (kind, reason, more) = if becomes("True") {
        let more = ", and it is managed by the hub cluster. Its apieserver is available";
        ("Normal", "Available", more)
    } else if becomes("False") {
        ("Warning", "Unavailable", ". However, its Kube API server is unavailable")
    } else {
        return None;
    };
    Some(json!({
        "apiVersion": EVENTS.api_version(),
        "kind": "Event",
        "metadata": {"name": format!("{name}.{:016x}", fastrand::u64(..)), "namespace": name},
        "eventTime": micro_time(now),
        "reportingController": CONTROLLER,
        "reportingInstance": agent.chars().take(MAX_INSTANCE).collect::<String>(),
        "action": reason,
        "reason": reason,
        "regarding": {
            "apiVersion": after["apiVersion"],
            "kind": after["kind"],
            // As upstream: an object without a namespace is given the Event's.
            "namespace": name,
            "name": name,
            "uid": cluster["uid"],
            "resourceVersion": cluster["resourceVersion"],
        },
        "note": format!("The {name} is successfully imported{more}"),
        "type": kind,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ManagedCluster with this status of its availability.
    fn cluster(status: &str) -> Value {
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "cluster1", "uid": "u-1", "resourceVersion": "295"},
            "status": {"conditions": [{"type": AVAILABLE, "status": status}]},
        })
    }

    #[test]
    fn status_an_event_tells_when_the_availability_changes_in_the_go_agents_words() {
        let good = "The cluster1 is successfully imported, and it is managed by the hub cluster. Its apieserver is available";
        let bad =
            "The cluster1 is successfully imported. However, its Kube API server is unavailable";
        for (before, after, expected) in [
            ("", "True", Some(("Available", "Normal", good))),
            ("Unknown", "True", Some(("Available", "Normal", good))),
            ("False", "True", Some(("Available", "Normal", good))),
            ("True", "False", Some(("Unavailable", "Warning", bad))),
            ("", "False", Some(("Unavailable", "Warning", bad))),
            ("True", "True", None),
            ("False", "False", None),
            ("True", "Unknown", None),
        ] {
            let (before, after) = (cluster(before), cluster(after));
            let event = available("agent1", &before, &after, SystemTime::UNIX_EPOCH);
            let event = event.map(|mut event| {
                let name = event["metadata"]["name"].take();
                assert!(name.as_str().is_some_and(|name| name.starts_with("cluster1.")), "{name}");
                event
            });
            let expected = expected.map(|(reason, kind, note)| {
                json!({
                    "apiVersion": "events.k8s.io/v1", "kind": "Event",
                    "metadata": {"name": null, "namespace": "cluster1"},
                    "eventTime": "1970-01-01T00:00:00.000000Z",
                    "reportingController": "csr-bootstrapper", "reportingInstance": "agent1",
                    "action": reason, "reason": reason,
                    "regarding": {
                        "kind": "ManagedCluster", "namespace": "cluster1", "name": "cluster1", "uid": "u-1",
                        "apiVersion": "cluster.open-cluster-management.io/v1", "resourceVersion": "295",
                    },
                    "note": note, "type": kind,
                })
            });
            assert_eq!(event, expected);
        }
    }
}
