//! Cleanup (`-cleanup`): removes the marks of this instance from all objects of all clusters, so that the instance can
//! be uninstalled. Lists and patches until a list finds none; the objects stay. The finalizer identifies a source;
//! finalizer and cluster in its origin annotation identify a target. Neither depends on the current name mapping. Only
//! metadata is read.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc, time::Duration};

use apiclient::{
    client::{Client, Patch},
    error::{Error, Result},
    json::Document,
    log_object,
    resource::Target,
    watch::{self, Selection},
};
use log::Level;
use serde_json::Value;

use crate::{
    connection::Connection,
    controller::Controller,
    model::{
        annotations::Origin,
        digest,
        discovery::{self, ResourceArg},
        key::{self, ObjectKey},
        known_clusters::ClusterIdentity,
        object::{ObjectReader, Role},
    },
    once,
    sync::patch,
};

/// The most passes over a kind: other writers may interfere, but must not cause an endless loop.
const MAX_PASSES: u32 = 3;
/// The wait before the next list if an object could not be cleaned.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_NAMES: usize = 10;

/// Cleans all clusters that can be reached.
///
/// # Errors
/// `Unavailable` with what is left: an object, or a cluster or kind that could not be read.
pub(crate) fn run(controller: &Controller) -> Result<()> {
    once::wait_for_remotes(controller, |it| it.clusters().iter().all(|it| it.is_connected()))?;
    let remotes = controller.remotes();
    let sources: Vec<_> = remotes.iter().map(|remote| remote.source.cluster.identity()).collect();
    // Remotes that are unknown or skipped.
    let trouble = controller.registry_trouble();
    let mut left: Vec<_> = trouble.into_iter().map(|why| format!("registry: {why}")).collect();
    for wanted in &controller.context.settings.resources {
        let (mut unserved, mut served) = (None, false);
        for (cluster, role) in clusters(controller) {
            let (cluster, sources) = (&*cluster, &*sources);
            match (Sweep { controller, cluster, role, wanted, sources }).run() {
                Ok(marked) => {
                    served = true;
                    left.extend(marked);
                }
                Err(error @ Error::NotServed(_)) => unserved = Some(error.to_string()),
                Err(error) => left.push(format!("{wanted} ({}): {error}", cluster.name())),
            }
        }
        // A cluster may no longer serve the kind, and then has no objects; if no cluster does, the kind is a mistake.
        left.extend(unserved.filter(|_| !served));
    }
    match left.len() {
        0 => Ok(()),
        count => {
            left.truncate(MAX_NAMES);
            Err(once::unfinished(format!("{count} not cleaned: {}", left.join("; "))))
        }
    }
}

/// The local cluster and all remotes, with the role of their objects.
fn clusters(controller: &Controller) -> Vec<(Arc<Connection>, Role)> {
    let own = controller.context.settings.local_role;
    let others = if own == Role::Source { Role::Target } else { Role::Source };
    let remotes = controller.remotes();
    let remotes = remotes.iter().map(|remote| (remote.cluster.clone(), others));
    [(controller.local.cluster().clone(), own)].into_iter().chain(remotes).collect()
}

struct Sweep<'a> {
    controller: &'a Controller,
    cluster: &'a Connection,
    role: Role,
    wanted: &'a ResourceArg,
    /// The clusters that sources come from.
    sources: &'a [Arc<ClusterIdentity>],
}

/// Objects with marks, and the patch that removes them, as text, which takes a fifth of the memory. `None` for an
/// object that is too large to read.
type Marked = Vec<(ObjectKey, Option<String>)>;

impl Sweep<'_> {
    /// Lists and patches until a list finds nothing; returns what the last list found.
    fn run(&self) -> Result<Vec<String>> {
        let (settings, stop) = (&self.controller.context.settings, &self.controller.stop);
        let found =
            self.cluster.ask(stop, &mut |client| discovery::resolve(client, self.wanted))?;
        let all = discovery::within(&found, settings.mapping.namespace(self.role));
        let mut failed = BTreeMap::new();
        let mut passes = 0..MAX_PASSES;
        loop {
            let marked = self.list(all)?;
            if settings.dry_run {
                let keys = marked.iter().map(|(key, _)| key);
                keys.for_each(|key| self.log(&at(&all, key), "dry run, nothing written"));
                return Ok(Vec::new());
            }
            if marked.is_empty() || passes.next().is_none() {
                return Ok(marked.into_iter().map(|(key, _)| self.left(&key, &failed)).collect());
            }
            failed.clear();
            for (key, patch) in marked.into_iter().take_while(|_| !stop.raised()) {
                if let Err(error) = self.clean(&at(&all, &key), patch) {
                    failed.insert(key, error.to_string());
                }
            }
            if !failed.is_empty() {
                stop.wait(RETRY_INTERVAL);
            }
        }
    }

    /// Describes what is left of an object.
    fn left(&self, key: &ObjectKey, failed: &BTreeMap<ObjectKey, String>) -> String {
        let again = "something marks it again, is the instance still running?";
        let why = failed.get(key).map_or(again, String::as_str);
        format!("{} {key} ({}): {why}", self.wanted, self.cluster.name())
    }

    fn list(&self, all: Target<'_>) -> Result<Marked> {
        let selection = Selection { metadata_only: true, ..Selection::all(all) };
        let (context, stop) = (&self.controller.context, &self.controller.stop);
        let (most, mut marked) = (context.settings.max_objects, Marked::new());
        let mut see = |document: Document| {
            let (namespace, name) = key::namespaced_name(document.object());
            let patch = match &document {
                Document::TooLarge(_) => Some(None),
                Document::Whole(object) => {
                    let patch = without_marks(self.role, object, &context.reader, self.sources);
                    patch.map(|patch| Some(patch.to_string()))
                }
            };
            marked.extend(patch.map(|patch| (key::of(namespace, name), patch)));
            match marked.len() <= most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        self.cluster.ask(stop, &mut |client| watch::list(client, &selection, stop, &mut see))?;
        if stop.raised() {
            return Err(once::unfinished("stopped before everything was done".into()));
        }
        match marked.len() <= most {
            true => Ok(marked),
            false => Err(once::unfinished(format!("there are more than {most}, see -max-objects"))),
        }
    }

    fn clean(&self, target: &Target<'_>, patch: Option<String>) -> Result<()> {
        let patch = patch.and_then(|patch| serde_json::from_str::<Value>(&patch).ok());
        let patch = patch.ok_or_else(|| Error::TooLarge("it is too large to be read".into()))?;
        let write = &mut |client: &Client| client.patch(target, Patch::Json, &patch);
        match self.cluster.ask(&self.controller.stop, write) {
            // NotFound: the source was waiting only for its finalizer.
            Ok(_) | Err(Error::NotFound(_)) => self.log(target, "cleaned"),
            Err(error) => {
                let remote = self.cluster.name();
                log_object!(Level::Warn, target, remote = remote, error:% = error; "cleanup failed");
                return Err(error);
            }
        }
        Ok(())
    }

    fn log(&self, target: &Target<'_>, what: &str) {
        log_object!(Level::Info, target, remote = self.cluster.name(); "{what}");
    }
}

fn at<'a>(all: &Target<'a>, key: &'a str) -> Target<'a> {
    let (namespace, name) = key::split(key);
    all.resource.object_in(namespace, name)
}

/// Returns the patch that removes this instance's marks, if the object has any. A source's annotations are removed with
/// the finalizer only: without it, they may be another instance's. Another cluster's instance may use the same
/// finalizer, so a target's origin must also name one of `sources`.
fn without_marks(
    role: Role,
    object: &Value,
    reader: &ObjectReader,
    sources: &[Arc<ClusterIdentity>],
) -> Option<Value> {
    match role {
        Role::Source => {
            let source = reader.source(object)?;
            source.value.has_finalizer().then(|| patch::release(&source, reader))
        }
        Role::Target => {
            let (keys, here) = (&reader.keys, object["metadata"]["annotations"].as_object()?);
            let origin = Origin::parse(here.get(&keys.source)?.as_str()?)?;
            let cluster = digest::of_text(origin.cluster);
            if origin.finalizer != reader.finalizer
                || !sources.iter().any(|source| source.has_mark(cluster))
            {
                return None;
            }
            let mut patch = patch::guarded(&reader.target(object)?);
            let ours = [&keys.source, &keys.managed_keys].into_iter();
            let ours = ours.filter(|key| here.contains_key(*key));
            patch.extend(ours.map(|key| patch::without_annotation(key)));
            Some(patch.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{
        annotations::AnnotationKeys, known_clusters::ClusterRecord, rules::FieldRules,
    };

    const UID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    fn reader() -> ObjectReader {
        let keys = AnnotationKeys::new("a.b");
        let rules = FieldRules::default();
        ObjectReader { keys, finalizer: "a.b/mine".into(), rules }
    }

    fn object(finalizers: &[&str], annotations: &Value) -> Value {
        json!({"metadata": {"name": "x", "uid": UID, "resourceVersion": "7",
            "finalizers": finalizers, "annotations": annotations}})
    }

    #[test]
    fn a_source_is_ours_by_its_finalizer() {
        let written = json!({"a.b/sync-remote-generation": "1", "a.b/paused": "true", "c": "d"});
        let patch = |finalizers: &[&str]| {
            without_marks(Role::Source, &object(finalizers, &written), &reader(), &[])
        };
        let expected = json!([
            {"op": "test", "path": "/metadata/uid", "value": UID},
            {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/metadata/annotations/a.b~1sync-remote-generation"},
            {"op": "test", "path": "/metadata/finalizers/1", "value": "a.b/mine"},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]);
        assert_eq!(patch(&["other/x", "a.b/mine"]), Some(expected));
        for others in [&[][..], &["a.b/other"]] {
            assert_eq!(patch(others), None, "the annotations are another instance's");
        }
    }

    #[test]
    fn a_target_is_ours_by_the_finalizer_in_its_origin() {
        let patch = |annotations: Value| {
            let (reader, record) = (&reader(), ClusterRecord::parse(UID).unwrap());
            let sources = &[Arc::new(ClusterIdentity::new("west", record))];
            without_marks(Role::Target, &object(&[], &annotations), reader, sources)
        };
        let origin = |finalizer: &str| format!("west={UID}/ns/x/{UID}/7/{finalizer}");
        let foreign = format!("east={UID}/ns/x/{UID}/7/a.b/mine");
        assert_eq!(patch(json!({"a.b/source": foreign})), None);
        let ours = json!({"a.b/source": origin("a.b/mine"), "a.b/managed-keys": "|", "c": "d"});
        let ours = patch(ours).unwrap();
        assert_eq!(ours.as_array().unwrap().len(), 4, "guards and two keys: {ours}");
        assert_eq!(patch(json!({"a.b/source": origin("a.b/other")})), None);
        assert_eq!(patch(json!({"a.b/source": "what"})), None);
        assert_eq!(patch(json!({"a.b/orphaned": "now"})), None);
    }
}
