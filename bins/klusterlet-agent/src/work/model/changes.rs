//! What others do to the work and to its objects.

use serde_json::{Value, json};

use super::world::{OBJECTS, RECORD, WORK, World};
use crate::work::{applied_manifest_work::APPLIED_MANIFEST_WORKS, objects::WORK_FINALIZER};

/// A change by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The work names other manifests.
    Edit(Spec),
    DeleteWork,
    /// The hub is restored from a backup of the first spec.
    Restore,
    /// Another work applies the first object, too.
    Share,
    /// Somebody changes the first object.
    Drift,
    DeleteObject,
    DeleteRecord,
    /// The executor gets or loses its permissions.
    TurnRights,
}

/// The specs of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spec {
    Both,
    SecondAlone,
    FirstEdited,
    /// By server-side apply.
    FirstApplied,
    Orphan,
    /// The first manifest has a kind that is not served.
    Unknown,
}

impl World {
    pub(super) fn possible_changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.changes == 0 {
            return changes;
        }
        if let Some(work) = self.work().filter(|work| !work.is_deleting()) {
            let specs = [
                Spec::SecondAlone,
                Spec::FirstEdited,
                Spec::FirstApplied,
                Spec::Orphan,
                Spec::Unknown,
            ];
            let others = specs.into_iter().filter(|spec| *spec != self.spec);
            changes.extend(others.map(Change::Edit));
            changes.push(Change::DeleteWork);
            if work.metadata.generation != Some(1) {
                changes.push(Change::Restore);
            }
        }
        if self.objects.contains_key(OBJECTS[0]) {
            changes.extend([Change::Share, Change::Drift, Change::DeleteObject]);
        }
        if self.objects.contains_key(RECORD) {
            changes.push(Change::DeleteRecord);
        }
        changes.extend(self.executor.map(|_| Change::TurnRights));
        changes
    }

    pub(super) fn change(&mut self, change: Change) {
        self.changes -= 1;
        let object = |world: &Self, key: &str| world.objects.get(key).cloned().unwrap_or_default();
        match change {
            Change::Edit(spec) => {
                let mut work = object(self, WORK);
                let generation = work["metadata"]["generation"].as_i64().unwrap_or_default();
                work["metadata"]["generation"] = (generation + 1).into();
                work["spec"] = self.value(spec);
                self.spec = spec;
                self.put(WORK, work);
            }
            Change::DeleteWork => {
                if self.spec == Spec::Orphan {
                    let uids = OBJECTS.map(|key| object(self, key)["metadata"]["uid"].clone());
                    self.orphaned = uids.into_iter().filter(|uid| !uid.is_null()).collect();
                }
                self.delete(WORK);
            }
            Change::Restore => {
                let mut work = object(self, WORK);
                work["metadata"]["generation"] = 1.into();
                work["metadata"]["finalizers"] = json!([WORK_FINALIZER]);
                (work["spec"], work["status"]) = (self.value(Spec::Both), Value::Null);
                self.spec = Spec::Both;
                self.put(WORK, work);
            }
            Change::Share => {
                let mut first = object(self, OBJECTS[0]);
                let mut references =
                    first["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                let version = APPLIED_MANIFEST_WORKS.api_version();
                let (kind, name) = ("AppliedManifestWork", "other");
                references
                    .push(json!({"apiVersion": version, "kind": kind, "name": name, "uid": "o"}));
                first["metadata"]["ownerReferences"] = references.into();
                self.put(OBJECTS[0], first);
            }
            Change::Drift => {
                let mut first = object(self, OBJECTS[0]);
                first["data"] = json!({"k": "theirs", "other": "1"});
                self.put(OBJECTS[0], first);
            }
            Change::DeleteObject => self.delete(OBJECTS[0]),
            Change::DeleteRecord => self.delete(RECORD),
            Change::TurnRights => self.executor = self.executor.map(|granted| !granted),
        }
    }
}

impl Spec {
    /// The data of both objects.
    pub(super) fn objects(self) -> [Option<&'static str>; 2] {
        match self {
            Self::Both | Self::Orphan => [Some("1"), Some("1")],
            Self::SecondAlone | Self::Unknown => [None, Some("1")],
            Self::FirstEdited => [Some("2"), Some("1")],
            Self::FirstApplied => [Some("3"), Some("1")],
        }
    }

    pub(super) fn value(self) -> Value {
        let manifest = |name: &str, kind: &str, data: &str| {
            let metadata = json!({"name": name, "namespace": "n"});
            json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"k": data}})
        };
        let [first, second] = self.objects();
        let mut manifests: Vec<Value> =
            first.map(|data| manifest("a", "ConfigMap", data)).into_iter().collect();
        if self == Self::Unknown {
            manifests.push(manifest("a", "Unknown", "1"));
        }
        manifests.extend(second.map(|data| manifest("b", "ConfigMap", data)));
        let option = (self == Self::Orphan).then(|| json!({"propagationPolicy": "Orphan"}));
        let configs = (self == Self::FirstApplied).then(|| {
            let first = json!({"resource": "configmaps", "namespace": "n", "name": "a"});
            let strategy = json!({"type": "ServerSideApply"});
            json!([{"resourceIdentifier": first, "updateStrategy": strategy}])
        });
        json!({
            "workload": {"manifests": manifests}, "deleteOption": option, "manifestConfigs": configs,
        })
    }
}
