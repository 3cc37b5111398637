//! Metadata watches on applied kinds: one for each kind, cluster-wide. They tell which work an object belongs to whose
//! desired state changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
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

use super::objects::{Kind, ResourceIdentifier, group_resource};

/// How soon a change of an object's status has to be reported, for which its work has rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scrape {
    #[default]
    Never,
    /// At the interval.
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

/// What was last seen of an object; the default when it is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    desired: u64,
    version: u64,
}

/// A change of an object that no pass has taken up yet.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Of more than its status.
    is_desired: bool,
    /// The only state seen since the last pass: it may be the echo of a write whose answer is on its way.
    echo: Option<Seen>,
}

/// The applied objects and the works that they belong to; shared by all watches.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<State>>);

/// The watch of a kind, until `stop` is raised: then no work applies it any more, or another one has replaced it.
struct KindWatch {
    version: String,
    /// Since when its requests fail.
    refused: Option<Instant>,
    /// The server does not serve this version, or not to the agent.
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
    /// Follows these objects of a work, and no longer what it had before.
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
            // A version that is served no more gives way to another one.
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
                self.set_refused(&resource, true, false);
            }
        }
    }

    /// Follows only the objects of these works.
    pub(crate) fn retain(&self, is_known: impl Fn(&str) -> bool) {
        let mut state = lock(&self.0);
        let unknown: Vec<_> = state.works.extract_if(.., |work, _| !is_known(work)).collect();
        for (work, objects) in &unknown {
            objects.iter().for_each(|object| state.release(object, work));
            state.forget_unapplied(objects);
        }
    }

    /// Takes the works whose objects changed, each with how soon it has a pass: Poll or Watch.
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

    /// Since when a work has objects of kinds that cannot be watched: they are polled.
    pub(crate) fn refused_since(&self, work: &str) -> Option<Instant> {
        let state = lock(&self.0);
        let objects = state.works.get(work).into_iter().flatten();
        objects.filter_map(|object| state.kinds.get(&object.kind())?.refused).min()
    }

    /// The kinds that cannot be watched.
    pub(crate) fn refused(&self) -> Vec<String> {
        let state = lock(&self.0);
        let refused = state.kinds.iter().filter(|(_, watch)| watch.refused.is_some());
        refused.map(|((group, plural), _)| group_resource(group, plural)).collect()
    }

    /// Watches a kind until it is `ended`, and wakes the loop of `stop` at changes.
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
                Event::Watching => self.set_refused(resource, false, false),
                Event::Failed(error) => {
                    let is_unserved = matches!(
                        error,
                        Error::NotServed(_) | Error::Forbidden(_) | Error::Invalid(_)
                    );
                    self.set_refused(resource, true, is_unserved);
                    stop.wake();
                }
            }
            if !lock(&self.0).changed.is_empty() {
                stop.wake();
            }
            ControlFlow::Continue(())
        });
    }

    /// Notes the state of an object that this agent has written: its event is not a change.
    pub(crate) fn wrote(&self, resource: &Resource, object: &Value) {
        let (identifier, mut state) = (identifier(resource, object), lock(&self.0));
        let State { objects, changed, .. } = &mut *state;
        let Some(known) = objects.get_mut(&identifier) else { return };
        let written = Seen::of(&object["metadata"]);
        known.seen = Some(written);
        // Another work that has the object has not seen this state yet.
        let is_alone = known.works.len() == 1;
        let change = changed.get(&identifier);
        if is_alone && change.is_some_and(|change| change.echo == Some(written)) {
            changed.remove(&identifier);
        }
    }

    /// Notes an object, if it is an applied one; returns it.
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

    /// Notes the objects that a list lacks.
    fn note_absent(&self, resource: &Resource, listed: &BTreeSet<ResourceIdentifier>) {
        let mut state = lock(&self.0);
        let of_kind = state.objects.keys().filter(|object| object.kind() == kind(resource));
        let absent: Vec<_> = of_kind.filter(|object| !listed.contains(object)).cloned().collect();
        for object in absent {
            state.saw(&object, Seen::default());
        }
    }

    /// Nobody has a pass at once: a server that starts refuses everything for a moment.
    fn set_refused(&self, resource: &Resource, is_refused: bool, is_unserved: bool) {
        let (kind, mut state) = (kind(resource), lock(&self.0));
        let watch = state.kinds.get_mut(&kind).filter(|watch| watch.version == *resource.version);
        let Some(watch) = watch else { return };
        watch.refused = is_refused.then(|| watch.refused.unwrap_or_else(Instant::now));
        watch.is_unserved = is_unserved;
    }
}

impl State {
    fn works_of(&self, object: &ResourceIdentifier) -> impl Iterator<Item = (&String, &Scrape)> {
        self.objects.get(object).into_iter().flat_map(|object| &object.works)
    }

    /// Notes a change that concerns some work. Any change of the desired state does.
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

    /// The work no longer has the object.
    fn release(&mut self, object: &ResourceIdentifier, work: &str) {
        if let Some(object) = self.objects.get_mut(object) {
            object.works.remove(work);
        }
    }

    /// Forgets the objects among these that no work has, and ends the watches of their kinds.
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
    /// The desired state changes with the generation, or with the version where the kind counts no generations.
    fn of(metadata: &Value) -> Self {
        let version = &metadata["resourceVersion"];
        let generation = match &metadata["generation"] {
            Value::Null => version,
            generation => generation,
        };
        let fields = ["uid", "labels", "annotations", "ownerReferences", "deletionTimestamp"];
        let hasher = BuildHasherDefault::<DefaultHasher>::new();
        let desired = hasher.hash_one((generation, fields.map(|field| &metadata[field])));
        Self { desired, version: hasher.hash_one(version) }
    }
}

#[cfg(test)]
mod tests {
    use apiclient::resource::CONFIGMAPS;
    use serde_json::json;

    use super::*;

    /// Of a work that has the object.
    fn watches(object: &ResourceIdentifier, scrape: Scrape) -> Watches {
        let watches = Watches::default();
        let mut state = lock(&watches.0);
        state.works.insert("w".to_owned(), vec![object.clone()]);
        let works = BTreeMap::from([("w".to_owned(), scrape)]);
        state.objects.insert(object.clone(), AppliedObject { works, seen: None });
        drop(state);
        watches
    }

    #[test]
    fn status_alone_matters_where_the_work_has_rules() {
        let object = identifier(&CONFIGMAPS, &json!({"metadata": {"name": "a"}}));
        for scrape in [Scrape::Never, Scrape::Poll, Scrape::Watch] {
            let watches = watches(&object, scrape);
            let note = |generation: Value, version: &str| {
                let metadata =
                    json!({"name": "a", "generation": generation, "resourceVersion": version});
                watches.note(&CONFIGMAPS, &Document::Whole(json!({"metadata": metadata})), false);
                watches.take_changed().remove("w")
            };
            assert_eq!(note(json!(1), "1"), Some(Scrape::Watch), "it is new");
            assert_eq!(note(json!(1), "1"), None);
            assert_eq!(note(json!(1), "2"), Some(scrape).filter(|s| *s != Scrape::Never));
            assert_eq!(note(json!(2), "3"), Some(Scrape::Watch), "its desired state has changed");
            assert_eq!(note(json!(null), "4"), Some(Scrape::Watch), "none are counted");
        }
    }

    #[test]
    fn kind_that_cannot_be_watched_is_polled_until_it_can_or_no_work_applies_it() {
        let object = identifier(&CONFIGMAPS, &json!({"metadata": {"name": "a"}}));
        let watches = watches(&object, Scrape::Watch);
        let ended = Stop::default();
        let (version, stop) = ("v1".to_owned(), ended.clone());
        let watch = KindWatch { version, refused: None, is_unserved: false, stop };
        lock(&watches.0).kinds.insert(object.kind(), watch);
        for is_refused in [true, false] {
            watches.set_refused(&CONFIGMAPS, is_refused, false);
            let since = watches.refused_since("w");
            assert_eq!(since.is_some(), is_refused);
            assert_eq!(watches.refused().contains(&"configmaps".to_owned()), is_refused);
            watches.set_refused(&CONFIGMAPS, is_refused, false);
            assert_eq!(watches.refused_since("w"), since, "it is known");
            assert!(watches.take_changed().is_empty(), "no pass begins at once");
        }
        assert!(!ended.raised());
        watches.retain(|_| false);
        assert!(ended.raised() && lock(&watches.0).kinds.is_empty());
    }

    #[test]
    fn echo_of_an_own_write_is_no_change() {
        let object = |version: &str| json!({"metadata": {"name": "a", "resourceVersion": version}});
        // What is seen before and after the answer to a write, which made version 2.
        let cases: [(&[&str], &[&str], bool); 5] = [
            (&[], &["2"], false),
            (&["2"], &[], false),
            (&[], &["2", "3"], true),
            (&["1", "2"], &[], true),
            (&["2", "3"], &[], true),
        ];
        for (before, after, is_change) in cases {
            let watches = watches(&identifier(&CONFIGMAPS, &object("")), Scrape::Watch);
            let note = |version: &&str| {
                watches.note(&CONFIGMAPS, &Document::Whole(object(version)), false);
            };
            before.iter().for_each(note);
            watches.wrote(&CONFIGMAPS, &object("2"));
            after.iter().for_each(note);
            assert_eq!(!watches.take_changed().is_empty(), is_change, "{before:?} {after:?}");
        }
    }

    #[test]
    fn change_is_told_to_the_other_work_of_an_object_that_a_write_left() {
        let object = json!({"metadata": {"name": "a", "resourceVersion": "2"}});
        let identifier = identifier(&CONFIGMAPS, &object);
        let watches = watches(&identifier, Scrape::Watch);
        let other = ("other".to_owned(), Scrape::Watch);
        lock(&watches.0).objects.get_mut(&identifier).unwrap().works.extend([other]);
        watches.note(&CONFIGMAPS, &Document::Whole(object.clone()), false);
        watches.wrote(&CONFIGMAPS, &object);
        assert!(watches.take_changed().contains_key("other"));
    }
}
