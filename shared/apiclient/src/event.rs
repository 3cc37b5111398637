//! Kubernetes Events: the history of an object, for people who read it with kubectl.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::{
    client::Client,
    error::Result,
    resource::{Resource, Target},
    time::seconds_time,
};

static EVENTS: Resource = Resource::v1("", "events", "Event");

/// Longer messages are refused (kubernetes `pkg/apis/core/validation/events.go`, NoteLengthLimit).
const MAX_MESSAGE: usize = 1000;

/// With a dot and 16 digits after it a name is of at most 253 characters.
const MAX_NAME: usize = 253 - 17;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreEvent {
    pub source: &'static str,
    /// The reason in one word; upstream's if there is one.
    pub reason: &'static str,
    /// The message, in a sentence.
    pub message: String,
    /// Somebody should attend to it.
    pub warning: bool,
}

impl CoreEvent {
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
        let time = seconds_time(now);
        let message: String = self.message.chars().take(MAX_MESSAGE).collect();
        let name: String =
            object["name"].as_str().unwrap_or(self.source).chars().take(MAX_NAME).collect();
        let name = name.trim_end_matches(['-', '.']);
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{name}.{random:016x}"), "namespace": namespace},
            "involvedObject": object,
            "reason": self.reason,
            "message": message,
            "type": if self.warning { "Warning" } else { "Normal" },
            "source": {"component": self.source},
            "reportingComponent": self.source,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        })
    }
}

/// An ObjectReference.
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
