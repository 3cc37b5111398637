//! Cached objects: the few hundred bytes of a document that affect decisions.

use apiclient::json;
use serde_json::{Map, Value};

use crate::model::{
    annotations::{AnnotationKeys, ManagedKeys, Origin, Uid, uid_of_mark},
    digest,
    rules::{FieldRules, is_content},
};

/// The memory limit, in bytes, above which objects are reconciled one at a time: a worker holds several copies. As
/// JSON, this is about 15 to 50 KB.
pub const SMALL: usize = 64 << 10;

/// A cached object: the fields common to all objects, and the value for its role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cached<R> {
    pub uid: Uid,
    /// The resourceVersion: a number that increases with each write to the server (Kubernetes API concepts, "Resource
    /// versions").
    pub version: u64,
    /// Its document costs more than [`SMALL`]: such pairs are reconciled one at a time.
    pub large: bool,
    pub value: R,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectState {
    /// 0 if the kind has no generations.
    pub generation: u32,
    /// Digest of the fields that are copied from source to target.
    pub content: u64,
    /// Digest of the labels and annotations that are copied.
    pub metadata: u64,
    /// Digest of the status; `null`, `{}` and a missing status are equal.
    pub status: u64,
    pub terminating: bool,
    pub paused: bool,
}

impl ObjectState {
    /// Digest of all that is copied from an object in this state.
    pub fn written(&self) -> u64 {
        self.content.rotate_left(1) ^ self.metadata
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Source,
    Target,
}

/// A source: the object that owns the content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceObject {
    pub state: ObjectState,
    pub finalizers: Finalizers,
    pub generations: Generations,
    /// The cluster that the source was itself copied from.
    pub copied_from: Option<Uid>,
}

impl SourceObject {
    pub fn has_finalizer(&self) -> bool {
        matches!(self.finalizers, Finalizers::Ours(_))
    }

    /// Returns whether the content was copied, according to the source's own annotations.
    pub fn seems_synced(&self) -> bool {
        let published = self.generations.remote.unwrap_or_default();
        self.has_finalizer() && published == self.state.generation
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finalizers {
    None,
    Others,
    /// Our finalizer is present, at this index.
    Ours(u16),
}

/// A source's annotations about its target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generations {
    pub remote: Option<u32>,
    pub local: Option<u32>,
    pub uid: Option<Uid>,
}

impl Generations {
    /// Which of [`AnnotationKeys::records`] are present.
    pub fn records(&self) -> [bool; 3] {
        [self.remote.is_some(), self.local.is_some(), self.uid.is_some()]
    }
}

/// A target: the copy, which owns the status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetObject {
    pub state: ObjectState,
    pub copy_of: Option<CopyOf>,
}

/// An [`Origin`] in compact form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyOf {
    /// Digest of the source's cluster in the mark.
    pub cluster: u64,
    pub uid: Uid,
    /// Digest of the source's namespace and name, and the instance's finalizer.
    pub place: u64,
}

/// A Secret on the target's cluster that may need to be uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetSecret {
    /// The uid of the Secret's controller.
    pub controller: Option<Uid>,
}

/// kubectl's annotation (kubernetes `staging/src/k8s.io/api/core/v1/annotation_key_constants.go`).
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns whether Argo CD tracks objects by `key`: with this key, it would prune the copy (argo-cd `common/common.go`;
/// the label is the default of `application.instanceLabelKey`).
fn is_tracking(key: &str) -> bool {
    key == "app.kubernetes.io/instance" || key.starts_with("argocd.argoproj.io/")
}

/// Reads documents; returns `None` unless they are objects of a Kubernetes API server.
#[derive(Clone, Debug)]
pub struct ObjectReader {
    pub keys: AnnotationKeys,
    pub finalizer: String,
    pub rules: FieldRules,
}

impl ObjectReader {
    pub fn source(&self, object: &Value) -> Option<Cached<SourceObject>> {
        let annotation = |name: &str| object["metadata"]["annotations"].get(name);
        let number = |name: &str| annotation(name)?.as_str()?.parse().ok();
        let keys = &self.keys;
        let origin = annotation(&keys.source).and_then(Value::as_str).and_then(Origin::parse);
        let value = SourceObject {
            state: self.state(object, self.metadata(object, None))?,
            finalizers: self.finalizers(object),
            generations: Generations {
                remote: number(&keys.remote_generation),
                local: number(&keys.local_generation),
                uid: annotation(&keys.local_uid).and_then(Uid::of),
            },
            copied_from: origin.and_then(|origin| uid_of_mark(origin.cluster)?),
        };
        cached(object, value)
    }

    pub fn target(&self, object: &Value) -> Option<Cached<TargetObject>> {
        let annotations = &object["metadata"]["annotations"];
        let annotation = |name: &str| annotations.get(name).and_then(Value::as_str);
        let origin = annotation(&self.keys.source).and_then(Origin::parse);
        let managed = annotation(&self.keys.managed_keys).map(ManagedKeys::parse);
        let value = TargetObject {
            state: self.state(object, self.metadata(object, managed))?,
            copy_of: origin.and_then(|origin| {
                // A Namespace created for a copy has the mark of the copy's source.
                if origin.namespace.is_empty() != object["metadata"]["namespace"].is_null() {
                    return None;
                }
                Some(CopyOf {
                    cluster: digest::of_text(origin.cluster),
                    uid: origin.uid,
                    place: self.place(origin.namespace, origin.name, origin.finalizer),
                })
            }),
        };
        cached(object, value)
    }

    /// The source for which this instance created a Namespace. An origin without a namespace means a copied Namespace.
    pub fn created_for<'a>(&self, namespace: &'a Value) -> Option<Origin<'a>> {
        let mark = namespace["metadata"]["annotations"].get(&self.keys.source)?.as_str()?;
        let origin = Origin::parse(mark)?;
        (origin.finalizer == self.finalizer && !origin.namespace.is_empty()).then_some(origin)
    }

    pub fn secret(&self, secret: &Value) -> Option<Cached<TargetSecret>> {
        let controller = controller_of(secret).and_then(|owner| Uid::of(&owner["uid"]));
        cached(secret, TargetSecret { controller })
    }

    /// Digest of a source's place, see [`CopyOf`].
    pub fn place(&self, namespace: &str, name: &str, finalizer: &str) -> u64 {
        digest::of_text(&format!("{namespace}/{name}/{finalizer}"))
    }

    /// Returns whether the annotation `key` of a source is copied to its target.
    pub fn copies_annotation(&self, key: &str) -> bool {
        // kubectl's record of the last apply describes the source.
        !self.keys.is_ours(key) && key != LAST_APPLIED && !is_tracking(key)
    }

    /// Returns whether the label `key` of a source is copied to its target.
    pub fn copies_label(&self, key: &str) -> bool {
        !is_tracking(key)
    }

    /// The digest of the content, without ignored fields.
    fn digest_content(&self, object: &Value) -> u64 {
        if self.rules.ignored.is_empty() {
            return digest::of_members(object.as_object(), is_content);
        }
        let content = members(object.as_object(), &is_content);
        digest::of_members(Some(&self.rules.without_ignored(content)), |_| true)
    }

    fn state(&self, object: &Value, metadata: u64) -> Option<ObjectState> {
        let status = match &object["status"] {
            Value::Object(status) if status.is_empty() => &Value::Null,
            status => status,
        };
        let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
        let paused = &object["metadata"]["annotations"][&self.keys.paused];
        Some(ObjectState {
            generation: generation.try_into().ok()?,
            content: self.digest_content(object),
            metadata,
            status: digest::of(status),
            terminating: terminating(object),
            paused: paused == "true",
        })
    }

    /// The digest of labels and annotations. For a target with `managed-keys`, it covers only those keys: the others do
    /// not concern this program.
    fn metadata(&self, object: &Value, managed: Option<ManagedKeys<'_>>) -> u64 {
        let [labels, annotations] =
            ["labels", "annotations"].map(|field| object["metadata"][field].as_object());
        let has = |keys: &[&str], key: &str| keys.binary_search(&key).is_ok();
        // A managed key that is no longer copied is included: it must be removed.
        let counts_label = |key: &str| match &managed {
            Some(managed) => has(&managed.labels, key),
            None => self.copies_label(key),
        };
        let counts_annotation = |key: &str| match &managed {
            Some(managed) => has(&managed.annotations, key) && !self.keys.is_ours(key),
            None => self.copies_annotation(key),
        };
        // The rotation distinguishes a label from an annotation with the same name.
        digest::of_members(labels, counts_label).rotate_left(1)
            ^ digest::of_members(annotations, counts_annotation)
    }

    fn finalizers(&self, object: &Value) -> Finalizers {
        let Some(list) = object["metadata"]["finalizers"].as_array() else {
            return Finalizers::None;
        };
        let ours = list.iter().position(|finalizer| finalizer == self.finalizer.as_str());
        match ours.and_then(|place| place.try_into().ok()) {
            Some(place) => Finalizers::Ours(place),
            None if list.is_empty() => Finalizers::None,
            None => Finalizers::Others,
        }
    }
}

fn cached<R>(object: &Value, value: R) -> Option<Cached<R>> {
    let metadata = &object["metadata"];
    let version = metadata["resourceVersion"].as_str()?.parse().ok()?;
    let large = json::cost(object) > SMALL;
    Some(Cached { uid: Uid::of(&metadata["uid"])?, version, large, value })
}

/// A copy of the members that `keep` accepts. It is not generic: each type of iterator collected into a map, and each
/// closure for `retain`, adds 3 KB to the program.
pub fn members(of: Option<&Map<String, Value>>, keep: &dyn Fn(&str) -> bool) -> Map<String, Value> {
    let mut kept = Map::new();
    for (key, value) in of.into_iter().flatten().filter(|(key, _)| keep(key)) {
        kept.insert(key.clone(), value.clone());
    }
    kept
}

pub fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().find(|owner| owner["controller"] == true)
}

pub fn terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

#[cfg(test)]
mod tests;
