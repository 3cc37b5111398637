//! Cluster-wide metadata watches, one for each applied kind. They find the works whose objects changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Instant,
};

use apiclient::{
    client::Client,
    error::Error,
    json::Document,
    lock::lock,
    resource::Resource,
    stop::{Stop, start_thread},
    watch::{Event, Selection, Watcher},
};
use serde_json::Value;

use super::objects::{Kind, ResourceIdentifier, digest, group_resource};

/// How soon a change of an object's status is reported, by the rules of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scrape {
    #[default]
    Never,
    /// At the status sync interval.
    Poll,
    /// At once.
    Watch,
}

/// An object of a work.
pub(crate) struct Followed {
    pub(crate) object: ResourceIdentifier,
    pub(crate) resource: Resource,
    pub(crate) scrape: Scrape,
}

/// Digests of the last observed state of an object; the default stands for an absent object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    desired: u64,
    version: u64,
}

/// A change of an object that no pass has handled yet.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Whether more than its status changed.
    is_desired: bool,
    /// The only state observed since the last pass: it may be the echo of a write that has no answer yet.
    echo: Option<Seen>,
}

/// The applied objects and their works, which all watches share.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<State>>);

/// The watch of a kind. `stop` is raised when no work applies the kind any more, or another watch replaces this one.
struct KindWatch {
    version: String,
    /// When its requests began to fail; `None` while they succeed.
    refused: Option<Instant>,
    /// Whether the server does not serve this version, or refuses the agent's requests for it.
    is_unserved: bool,
    stop: Stop,
}

/// An applied object.
#[derive(Default)]
struct AppliedObject {
    works: BTreeMap<String, Scrape>,
    seen: Option<Seen>,
}

#[derive(Default)]
struct State {
    kinds: BTreeMap<Kind, KindWatch>,
    works: BTreeMap<String, Vec<ResourceIdentifier>>,
    objects: BTreeMap<ResourceIdentifier, AppliedObject>,
    changed: BTreeMap<ResourceIdentifier, Change>,
}

impl Watches {
    /// Follows these objects of a work, instead of its previous ones.
    pub(crate) fn follow(&self, work: &str, objects: &[Followed], client: &Client, stop: &Stop) {
        let mut new = Vec::new();
        let mut state = lock(&self.0);
        let identifiers = objects.iter().map(|followed| followed.object.clone()).collect();
        let before = state.works.insert(work.to_owned(), identifiers).unwrap_or_default();
        for object in &before {
            state.release(object, work);
        }
        for Followed { object, resource, scrape } in objects {
            let works = &mut state.objects.entry(object.clone()).or_default().works;
            let known = works.entry(work.to_owned()).or_default();
            *known = (*known).max(*scrape);
            let version = resource.version.to_string();
            let known = state.kinds.get(&object.kind());
            // Another version replaces one that is no longer served.
            if known.is_none_or(|known| known.is_unserved && known.version != version) {
                let stop = stop.child();
                new.push((resource.clone(), stop.clone()));
                let watch = KindWatch { version, refused: None, is_unserved: false, stop };
                if let Some(replaced) = state.kinds.insert(object.kind(), watch) {
                    replaced.stop.raise();
                }
            }
        }
        state.forget_unapplied(&before);
        drop(state);
        for (resource, ended) in new {
            let (watches, client, stop) = (self.clone(), client.clone(), stop.clone());
            let target = resource.clone();
            let watch = move || watches.watch(&client, &target, &ended, &stop);
            let started = start_thread("watch", watch);
            if let Err(error) = started {
                log::error!(error:% = error; "no thread for a watch");
                self.set_error(&resource, Some(&Error::Unreachable(error.to_string())));
            }
        }
    }

    /// Stops following the objects of works for which `is_known` returns `false`.
    pub(crate) fn retain(&self, is_known: impl Fn(&str) -> bool) {
        let mut state = lock(&self.0);
        let unknown: Vec<_> = state.works.extract_if(.., |work, _| !is_known(work)).collect();
        for (work, objects) in &unknown {
            objects.iter().for_each(|object| state.release(object, work));
            state.forget_unapplied(objects);
        }
    }

    /// Takes the works whose objects changed, each with how soon its pass is due: Poll or Watch.
    pub(crate) fn take_changed(&self) -> BTreeMap<String, Scrape> {
        let mut state = lock(&self.0);
        let mut works = BTreeMap::new();
        for (object, change) in std::mem::take(&mut state.changed) {
            for (work, scrape) in state.works_of(&object) {
                let scrape = if change.is_desired { Scrape::Watch } else { *scrape };
                let known = works.entry(work.clone()).or_default();
                *known = scrape.max(*known);
            }
        }
        works.retain(|_, scrape| *scrape != Scrape::Never);
        works
    }

    /// Returns since when one of a work's kinds cannot be watched: such a work is polled.
    pub(crate) fn refused_since(&self, work: &str) -> Option<Instant> {
        let state = lock(&self.0);
        let objects = state.works.get(work).into_iter().flatten();
        objects.filter_map(|object| state.kinds.get(&object.kind())?.refused).min()
    }

    /// Returns the kinds that cannot be watched.
    pub(crate) fn refused(&self) -> Vec<String> {
        let state = lock(&self.0);
        let refused = state.kinds.iter().filter(|(_, watch)| watch.refused.is_some());
        refused.map(|((group, plural), _)| group_resource(group, plural)).collect()
    }

    /// Watches a kind until `ended` is raised; each change wakes the loop of `stop`.
    fn watch(&self, client: &Client, resource: &Resource, ended: &Stop, stop: &Stop) {
        let target = resource.everywhere();
        let selection = Selection { metadata_only: true, ..Selection::all(target) };
        let mut listed = BTreeSet::new();
        Watcher::default().run(client, &selection, ended, &mut |event| {
            if ended.raised() {
                return ControlFlow::Break(());
            }
            match event {
                Event::Init { .. } => listed.clear(),
                Event::InitApply(document) => {
                    listed.extend(self.note(resource, &document, false));
                }
                Event::InitDone => self.note_absent(resource, &listed),
                Event::Apply(document) => drop(self.note(resource, &document, false)),
                Event::Delete(document) => drop(self.note(resource, &document, true)),
                Event::Watching => self.set_error(resource, None),
                Event::Failed(error) => {
                    self.set_error(resource, Some(error));
                    stop.wake();
                }
            }
            if !lock(&self.0).changed.is_empty() {
                stop.wake();
            }
            ControlFlow::Continue(())
        });
    }

    /// Records the state of an object that this agent wrote: the event of the write is not a change. If other works
    /// have the object, too, it is one: they have not seen this state.
    pub(crate) fn wrote(&self, resource: &Resource, object: &Value) {
        let (identifier, mut state) = (identifier(resource, object), lock(&self.0));
        let State { objects, changed, .. } = &mut *state;
        let known = objects.get_mut(&identifier).filter(|known| known.works.len() == 1);
        let Some(known) = known else { return };
        let written = Seen::of(&object["metadata"]);
        known.seen = Some(written);
        if changed.get(&identifier).is_some_and(|change| change.echo == Some(written)) {
            changed.remove(&identifier);
        }
    }

    /// Records the state of an object and returns its identifier, if a work applies it.
    fn note(
        &self,
        resource: &Resource,
        document: &Document,
        is_deleted: bool,
    ) -> Option<ResourceIdentifier> {
        let Document::Whole(object) = document else { return None };
        let identifier = identifier(resource, object);
        let mut state = lock(&self.0);
        let seen = if is_deleted { Seen::default() } else { Seen::of(&object["metadata"]) };
        state.objects.contains_key(&identifier).then(|| {
            state.saw(&identifier, seen);
            identifier
        })
    }

    /// Records the objects that a list lacks as absent.
    fn note_absent(&self, resource: &Resource, listed: &BTreeSet<ResourceIdentifier>) {
        let mut state = lock(&self.0);
        let of_kind = state.objects.keys().filter(|object| object.kind() == kind(resource));
        let absent: Vec<_> = of_kind.filter(|object| !listed.contains(object)).cloned().collect();
        for object in absent {
            state.saw(&object, Seen::default());
        }
    }

    /// Records whether a watch fails. No pass is due at once: a server that starts refuses everything for a moment.
    fn set_error(&self, resource: &Resource, error: Option<&Error>) {
        let (kind, mut state) = (kind(resource), lock(&self.0));
        let watch = state.kinds.get_mut(&kind).filter(|watch| watch.version == *resource.version);
        let Some(watch) = watch else { return };
        watch.refused = error.map(|_| watch.refused.unwrap_or_else(Instant::now));
        watch.is_unserved =
            matches!(error, Some(Error::NotServed(_) | Error::Forbidden(_) | Error::Invalid(_)));
    }
}

impl State {
    fn works_of(&self, object: &ResourceIdentifier) -> impl Iterator<Item = (&String, &Scrape)> {
        self.objects.get(object).into_iter().flat_map(|object| &object.works)
    }

    /// Records a change of the desired state, or of the status if a work has rules for it.
    fn saw(&mut self, object: &ResourceIdentifier, now: Seen) {
        let Some(known) = self.objects.get_mut(object) else { return };
        let before = known.seen.replace(now);
        if before == Some(now) {
            return;
        }
        let is_desired = before.is_none_or(|before| before.desired != now.desired);
        if is_desired || known.works.values().any(|scrape| *scrape != Scrape::Never) {
            let known = self.changed.get(object);
            let echo = known.is_none().then_some(now);
            let is_desired = is_desired || known.is_some_and(|known| known.is_desired);
            self.changed.insert(object.clone(), Change { is_desired, echo });
        }
    }

    /// Removes a work from the works of an object.
    fn release(&mut self, object: &ResourceIdentifier, work: &str) {
        if let Some(object) = self.objects.get_mut(object) {
            object.works.remove(work);
        }
    }

    /// Forgets any of these objects without works, and ends the watches of kinds without objects.
    fn forget_unapplied(&mut self, objects: &[ResourceIdentifier]) {
        for object in objects {
            if self.objects.get(object).is_none_or(|object| !object.works.is_empty()) {
                continue;
            }
            self.objects.remove(object);
            let kind = object.kind();
            if !self.objects.keys().any(|it| it.kind() == kind)
                && let Some(ended) = self.kinds.remove(&kind)
            {
                ended.stop.raise();
            }
        }
    }
}

fn kind(resource: &Resource) -> Kind {
    (resource.group.to_string(), resource.plural.to_string())
}

fn identifier(resource: &Resource, object: &Value) -> ResourceIdentifier {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    ResourceIdentifier {
        group: resource.group.to_string(),
        resource: resource.plural.to_string(),
        namespace: text("namespace"),
        name: text("name"),
    }
}

impl Seen {
    /// Digests metadata. The generation stands for the desired state; without one, the resourceVersion does.
    fn of(metadata: &Value) -> Self {
        let version = &metadata["resourceVersion"];
        let generation = match &metadata["generation"] {
            Value::Null => version,
            generation => generation,
        };
        let fields = ["uid", "labels", "annotations", "ownerReferences", "deletionTimestamp"];
        let desired = digest((generation, fields.map(|field| &metadata[field])));
        Self { desired, version: digest(version) }
    }
}

#[cfg(test)]
mod tests;
