//! Kubernetes Events, which `kubectl describe` shows.

use std::time::SystemTime;

use serde_json::json;

use crate::{
    client::Client,
    error::Result,
    resource::{Resource, Target},
    time::micro_time,
};

static EVENTS: Resource = Resource::v1("events.k8s.io", "events", "Event");

/// The server refuses longer notes, in bytes (kubernetes `pkg/apis/core/validation/events.go`, NoteLengthLimit).
const MAX_NOTE: usize = 1000;

/// Room for a dot and 16 digits up to the 253 characters of a name.
const MAX_NAME: usize = 253 - 17;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    pub controller: &'static str,
    /// The reason in one word; upstream's if it has one.
    pub reason: &'static str,
    pub note: String,
    /// Whether a person should act.
    pub warning: bool,
}

impl EventRecord {
    /// Writes the Event about an object with this uid, by which `kubectl describe` finds it. Events about
    /// cluster-scoped objects go to the namespace `default` (client-go `tools/record/event.go`, makeEvent).
    pub fn write(&self, client: &Client, about: &Target<'_>, uid: Option<&str>) -> Result<()> {
        let Target { resource, namespace, name, .. } = about;
        let target = EVENTS.collection(namespace.unwrap_or("default"));
        let prefix: String = name.unwrap_or(self.controller).chars().take(MAX_NAME).collect();
        let prefix = prefix.trim_end_matches(['-', '.']);
        let event = json!({
            "apiVersion": EVENTS.api_version(),
            "kind": EVENTS.kind,
            "metadata": {
                "name": format!("{prefix}.{:016x}", fastrand::u64(..)),
                "namespace": target.namespace,
            },
            "eventTime": micro_time(SystemTime::now()),
            "reportingController": self.controller,
            "reportingInstance": self.controller,
            "action": self.reason,
            "reason": self.reason,
            // The server ignores null fields.
            "regarding": {
                "apiVersion": resource.api_version(),
                "kind": resource.kind,
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
            "note": cut(&self.note),
            "type": if self.warning { "Warning" } else { "Normal" },
        });
        client.create(&target, &event).map(drop)
    }
}

fn cut(note: &str) -> &str {
    &note[..note.floor_char_boundary(MAX_NOTE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_is_cut_by_its_bytes() {
        assert_eq!(cut(&"\u{4e16}".repeat(MAX_NOTE)).len(), 999);
        assert_eq!(cut("short"), "short");
    }
}
