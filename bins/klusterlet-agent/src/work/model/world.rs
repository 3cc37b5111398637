//! The hub with one work, and the managed cluster with two ConfigMaps.

use std::collections::BTreeMap;

use apiclient::api::parse;
use serde_json::{Value, json};

use super::changes::Spec;
use crate::work::{
    applied_manifest_work::AppliedManifestWork,
    bring::Digests,
    objects::{ManifestWork, ResourceIdentifier},
};

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct World {
    pub(super) objects: BTreeMap<String, Value>,
    version: u64,
    uids: u64,
    pub(super) digests: Vec<(String, u64)>,
    pub(super) spec: Spec,
    /// Uids of the objects that the final spec orphans.
    pub(super) orphaned: Vec<Value>,
    /// Whether the executor has its permissions; `None` if the work has no executor.
    pub(super) executor: Option<bool>,
    /// The agent may update objects, but not patch them.
    pub(super) lacks_patch: bool,
    violation: Option<String>,
    pub(super) changes: u8,
    pub(super) troubles: u8,
}

pub(super) const WORK: &str = "manifestworks/w";
pub(super) const RECORD: &str = "appliedmanifestworks/h-w";
pub(super) const OBJECTS: [&str; 2] = ["configmaps/a", "configmaps/b"];

impl World {
    pub(super) fn new(changes: u8, troubles: u8, executor: Option<bool>) -> Self {
        let mut world = Self {
            objects: BTreeMap::new(),
            version: 0,
            uids: 0,
            digests: Vec::new(),
            spec: Spec::Both,
            orphaned: Vec::new(),
            executor,
            lacks_patch: false,
            violation: None,
            changes,
            troubles,
        };
        let metadata = json!({"name": "w", "namespace": "c", "generation": 1});
        world.put(WORK, json!({"metadata": metadata, "spec": world.value(Spec::Both)}));
        world
    }

    /// The spec of the work.
    pub(super) fn value(&self, spec: Spec) -> Value {
        let mut value = spec.value();
        if self.executor.is_some() {
            let account = json!({"namespace": "n", "name": "sa"});
            value["executor"] =
                json!({"subject": {"type": "ServiceAccount", "serviceAccount": account}});
        }
        value
    }

    /// Judges a write with the agent's own permissions: if the work has an executor, it may only release an object.
    pub(super) fn note_own_write(&mut self, key: &str, body: &Value) {
        let is_release = body.as_object().is_some_and(|fields| fields.len() == 1)
            && body["metadata"]["ownerReferences"].is_array();
        if self.executor.is_some() && OBJECTS.contains(&key) && !is_release {
            self.violation = Some(format!("{key} is written with the agent's rights"));
        }
    }

    pub(super) fn work(&self) -> Option<ManifestWork> {
        self.objects.get(WORK).cloned().and_then(parse)
    }

    pub(super) fn record(&self) -> Option<AppliedManifestWork> {
        self.objects.get(RECORD).cloned().and_then(parse)
    }

    pub(super) fn digests(&self) -> Digests {
        let names = self.digests.iter().cloned();
        names
            .map(|(name, digest)| {
                let mut object = ResourceIdentifier::default();
                (object.resource, object.namespace) = ("configmaps".into(), "n".into());
                object.name = name;
                (object, digest)
            })
            .collect()
    }

    pub(super) fn put(&mut self, key: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["metadata"]["uid"].is_null() {
            self.uids += 1;
            object["metadata"]["uid"] = format!("u{}", self.uids).into();
        }
        if self.objects.get(key).is_some_and(is_shared) && !is_shared(&object) {
            self.violation = Some(format!("{key} loses another work as an owner"));
        }
        let metadata = &object["metadata"];
        let held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if metadata["deletionTimestamp"].is_null() || held {
            self.objects.insert(key.to_owned(), object);
        } else {
            self.objects.remove(key);
        }
    }

    pub(super) fn delete(&mut self, key: &str) {
        if let Some(mut object) = self.objects.get(key).cloned() {
            object["metadata"]["deletionTimestamp"] = "t".into();
            self.put(key, object);
        }
    }

    /// Returns whether the garbage collector has objects to delete.
    pub(super) fn collectable(&self) -> bool {
        OBJECTS.iter().any(|key| self.dangles(key))
    }

    pub(super) fn collect(&mut self) {
        for key in OBJECTS {
            if self.dangles(key) {
                self.note_deletion(key);
                self.delete(key);
            }
        }
    }

    /// Returns whether an object has owners, and all are gone.
    fn dangles(&self, key: &str) -> bool {
        let record = self.objects.get(RECORD).map(|record| &record["metadata"]["uid"]);
        let references = self.objects.get(key).map(|object| &object["metadata"]["ownerReferences"]);
        let references = references.and_then(Value::as_array).filter(|list| !list.is_empty());
        references.is_some_and(|list| {
            list.iter().all(|owner| Some(&owner["uid"]) != record && owner["uid"] != "o")
        })
    }

    pub(super) fn note_deletion(&mut self, key: &str) {
        let Some(object) = self.objects.get(key) else { return };
        if is_shared(object) {
            self.violation = Some(format!("{key} of another work is deleted"));
        }
        if self.orphaned.contains(&object["metadata"]["uid"]) {
            self.violation = Some(format!("{key} is deleted, which the final spec orphans"));
        }
    }

    pub(super) fn judge(&self) -> std::result::Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    pub(super) fn settled(&self) -> std::result::Result<(), String> {
        let Some(work) = self.objects.get(WORK) else {
            return match OBJECTS.iter().find(|key| self.is_ours(key)) {
                _ if self.objects.contains_key(RECORD) => Err("a record is left".into()),
                Some(key) => Err(format!("{key} is left behind")),
                None => Ok(()),
            };
        };
        let Some(record) = self.objects.get(RECORD) else { return Err("no record".into()) };
        let is_denied = self.executor == Some(false);
        let wanted = self.spec.objects();
        for (key, want) in OBJECTS.iter().zip(wanted) {
            let data = self.objects.get(*key).map(|object| &object["data"]["k"]);
            match want {
                Some(_) if is_denied => {}
                Some(value) if data != Some(&json!(value)) => {
                    return Err(format!("{key}: {data:?}"));
                }
                Some(_) if self.is_ours(key) == (self.spec == Spec::Orphan) => {
                    return Err(format!("{key} has the wrong owner"));
                }
                None if self.spec != Spec::Unknown && self.is_ours(key) => {
                    return Err(format!("{key} is left behind"));
                }
                _ => {}
            }
        }
        let entries = record["status"]["appliedResources"].as_array().cloned().unwrap_or_default();
        let named = wanted.iter().filter(|wanted| wanted.is_some()).count();
        let fits = entries.len() == named || self.spec == Spec::Unknown;
        let is_intent = |entry: &Value| entry["uid"].is_null() && self.spec != Spec::Unknown;
        if !is_denied && (!fits || entries.iter().any(is_intent)) {
            return Err(format!("record {entries:?}"));
        }
        let mut conditions = work["status"]["conditions"].as_array().into_iter().flatten();
        let applied = conditions.find(|condition| condition["type"] == "Applied");
        let expected = if self.spec == Spec::Unknown || is_denied { "False" } else { "True" };
        let is_true = applied.is_some_and(|applied| {
            applied["status"] == expected
                && applied["observedGeneration"] == work["metadata"]["generation"]
        });
        if is_true { Ok(()) } else { Err(format!("condition {applied:?}")) }
    }

    pub(super) fn is_ours(&self, key: &str) -> bool {
        let record = self.objects.get(RECORD).map(|record| &record["metadata"]["uid"]);
        let references = self.objects.get(key).map(|object| &object["metadata"]["ownerReferences"]);
        let mut owners = references.and_then(Value::as_array).into_iter().flatten();
        owners.any(|owner| owner["name"] == "h-w" && record.is_none_or(|uid| owner["uid"] == *uid))
    }
}

/// Returns whether another work applies the object, too.
fn is_shared(object: &Value) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array();
    references.into_iter().flatten().any(|owner| owner["uid"] == "o")
}
