//! Kubernetes Events: the history of an object, for people who read it with kubectl.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::{
    client::Client,
    error::Result,
    resource::{Resource, Target},
    time::micro_time,
};

static EVENTS: Resource = Resource::v1("events.k8s.io", "events", "Event");

/// Longer notes are refused (kubernetes `pkg/apis/core/validation/events.go`, NoteLengthLimit).
const MAX_NOTE: usize = 1000;

/// With a dot and 16 digits after it a name is of at most 253 characters.
const MAX_NAME: usize = 253 - 17;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    pub controller: &'static str,
    /// The reason in one word; upstream's if there is one.
    pub reason: &'static str,
    pub note: String,
    /// Somebody should attend to it.
    pub warning: bool,
}

impl EventRecord {
    /// Writes it to the cluster of `client`, about an object with this uid, by which kubectl describe finds its
    /// Events. Those about cluster-scoped objects are in the namespace default (client-go `tools/record/event.go`,
    /// makeEvent).
    pub fn write(&self, client: &Client, about: &Target<'_>, uid: Option<&str>) -> Result<()> {
        let namespace = about.namespace.unwrap_or("default");
        let object = reference(about, uid);
        let event = self.object(namespace, &object, SystemTime::now(), fastrand::u64(..));
        client.create(&EVENTS.collection(namespace), &event).map(drop)
    }

    fn object(&self, namespace: &str, object: &Value, now: SystemTime, random: u64) -> Value {
        let name: String =
            object["name"].as_str().unwrap_or(self.controller).chars().take(MAX_NAME).collect();
        let name = name.trim_end_matches(['-', '.']);
        json!({
            "apiVersion": EVENTS.api_version(),
            "kind": EVENTS.kind,
            "metadata": {"name": format!("{name}.{random:016x}"), "namespace": namespace},
            "eventTime": micro_time(now),
            "reportingController": self.controller,
            "reportingInstance": self.controller,
            "action": self.reason,
            "reason": self.reason,
            "regarding": object,
            "note": self.note.chars().take(MAX_NOTE).collect::<String>(),
            "type": if self.warning { "Warning" } else { "Normal" },
        })
    }
}

fn reference(target: &Target<'_>, uid: Option<&str>) -> Value {
    let Target { resource, namespace, name, .. } = target;
    let mut reference = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind, "name": name,
    });
    for (field, value) in [("namespace", *namespace), ("uid", uid)] {
        if let Some(value) = value {
            reference[field] = value.into();
        }
    }
    reference
}
