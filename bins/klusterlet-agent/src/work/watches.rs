//! Metadata watches on applied kinds: one for each kind, cluster-wide. They tell which work an object belongs to whose
//! desired state changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use apiclient::{
    client::Client,
    error::Error,
    json::Document,
    lock::lock,
    resource::Resource,
    stop::Stop,
    thread::start_thread,
    watch::{Event, Selection, Watcher},
};
use serde_json::Value;

use super::objects::{Kind, ResourceIdentifier, group_resource};

/// Objects in a page of a list.
const PAGE: u32 = 500;

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

/// What was seen last of an object; of one that is absent nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    desired: u64,
    version: u64,
}

/// The applied objects and the works that they belong to; shared by all watches.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<State>>);

/// The watch of a kind, until `stop` is raised: then no work applies it any more, or another one has replaced it.
struct KindWatch {
    version: String,
    is_refused: bool,
    stop: Stop,
}

#[derive(Default)]
struct State {
    kinds: BTreeMap<Kind, KindWatch>,
    works: BTreeMap<ResourceIdentifier, BTreeMap<String, Scrape>>,
    seen: BTreeMap<ResourceIdentifier, Seen>,
    changed: BTreeMap<String, Scrape>,
}

impl Watches {
    /// Follows these objects of a work, and no longer what it had before.
    pub(crate) fn follow(&self, work: &str, objects: &[Followed], client: &Client, stop: &Stop) {
        let mut new = Vec::new();
        let mut state = lock(&self.0);
        for works in state.works.values_mut() {
            works.remove(work);
        }
        for Followed { object, resource, scrape } in objects {
            let works = state.works.entry(object.clone()).or_default();
            let known = works.entry(work.to_owned()).or_default();
            *known = (*known).max(*scrape);
            let version = resource.version.to_string();
            let known = state.kinds.get(&object.kind());
            // A version that is served no more gives way to another one.
            if known.is_none_or(|known| known.is_refused && known.version != version) {
                let stop = stop.child();
                new.push((resource.clone(), stop.clone()));
                let watch = KindWatch { version, is_refused: false, stop };
                if let Some(replaced) = state.kinds.insert(object.kind(), watch) {
                    replaced.stop.raise();
                }
            }
        }
        state.forget_unapplied();
        drop(state);
        for (resource, ended) in new {
            let (watches, client, stop) = (self.clone(), client.clone(), stop.clone());
            let target = resource.clone();
            let watch = move || watches.watch(&client, &target, &ended, &stop);
            let started = start_thread("watch", watch);
            if let Err(error) = started {
                log::error!(error:% = error; "no thread for a watch");
                self.set_refused(&resource, true);
            }
        }
    }

    /// Follows only the objects of these works.
    pub(crate) fn retain(&self, is_known: impl Fn(&str) -> bool) {
        let mut state = lock(&self.0);
        for works in state.works.values_mut() {
            works.retain(|work, _| is_known(work));
        }
        state.forget_unapplied();
    }

    /// Takes the works whose objects changed, each with how soon it has a pass: Poll or Watch.
    pub(crate) fn take_changed(&self) -> BTreeMap<String, Scrape> {
        std::mem::take(&mut lock(&self.0).changed)
    }

    /// Whether a work has objects of kinds that cannot be watched: they are polled.
    pub(crate) fn needs_polling(&self, work: &str) -> bool {
        let state = lock(&self.0);
        let mut objects = state.works.iter().filter(|(_, works)| works.contains_key(work));
        objects.any(|(object, _)| {
            state.kinds.get(&object.kind()).is_some_and(|watch| watch.is_refused)
        })
    }

    /// The kinds that cannot be watched.
    pub(crate) fn refused(&self) -> Vec<String> {
        let state = lock(&self.0);
        let refused = state.kinds.iter().filter(|(_, watch)| watch.is_refused);
        refused.map(|((group, plural), _)| group_resource(group, plural)).collect()
    }

    /// Watches a kind until it is `ended`, and wakes the loop of `stop` at changes.
    fn watch(&self, client: &Client, resource: &Resource, ended: &Stop, stop: &Stop) {
        let target = resource.everywhere();
        let selection = Selection { metadata_only: true, page: PAGE, ..Selection::all(target) };
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
                Event::Watching => self.set_refused(resource, false),
                Event::Failed(Error::Forbidden(_) | Error::NotServed(_) | Error::Invalid(_)) => {
                    self.set_refused(resource, true)
                }
                Event::Failed(_) => {}
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
        if state.works.contains_key(&identifier) {
            state.seen.insert(identifier, Seen::of(&object["metadata"]));
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
        state.works.contains_key(&identifier).then(|| {
            state.saw(&identifier, seen);
            identifier
        })
    }

    /// Notes the objects that a list lacks.
    fn note_absent(&self, resource: &Resource, listed: &BTreeSet<ResourceIdentifier>) {
        let mut state = lock(&self.0);
        let of_kind = state.works.keys().filter(|object| object.kind() == kind(resource));
        let absent: Vec<_> = of_kind.filter(|object| !listed.contains(object)).cloned().collect();
        for object in absent {
            state.saw(&object, Seen::default());
        }
    }

    fn set_refused(&self, resource: &Resource, is_refused: bool) {
        let (kind, mut state) = (kind(resource), lock(&self.0));
        let State { kinds, works, changed, .. } = &mut *state;
        let watch = kinds.get_mut(&kind).filter(|watch| watch.version == *resource.version);
        let Some(watch) = watch else { return };
        if std::mem::replace(&mut watch.is_refused, is_refused) != is_refused {
            // Another pass begins or ends the polling.
            let objects = works.iter().filter(|(object, _)| object.kind() == kind);
            let works = objects.flat_map(|(_, works)| works.keys());
            changed.extend(works.map(|work| (work.clone(), Scrape::Watch)));
        }
    }
}

impl State {
    /// Notes the works that a change of the object concerns. Any change of its desired state does.
    fn saw(&mut self, object: &ResourceIdentifier, now: Seen) {
        let before = self.seen.insert(object.clone(), now);
        if before == Some(now) {
            return;
        }
        let is_desired = before.is_none_or(|before| before.desired != now.desired);
        for (work, scrape) in self.works.get(object).into_iter().flatten() {
            let scrape = if is_desired { Scrape::Watch } else { *scrape };
            if scrape != Scrape::Never {
                let known = self.changed.entry(work.clone()).or_default();
                *known = scrape.max(*known);
            }
        }
    }

    fn forget_unapplied(&mut self) {
        let Self { works, seen, kinds, .. } = self;
        works.retain(|_, works| !works.is_empty());
        seen.retain(|object, _| works.contains_key(object));
        let applied: BTreeSet<Kind> = works.keys().map(ResourceIdentifier::kind).collect();
        for (_, ended) in kinds.extract_if(.., |kind, _| !applied.contains(kind)) {
            ended.stop.raise();
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

    #[test]
    fn status_alone_matters_where_the_work_has_rules() {
        let watches = Watches::default();
        let object = identifier(&CONFIGMAPS, &json!({"metadata": {"name": "a"}}));
        let note = |generation: Value, version: &str| {
            let metadata =
                json!({"name": "a", "generation": generation, "resourceVersion": version});
            watches.note(&CONFIGMAPS, &Document::Whole(json!({"metadata": metadata})), false);
            watches.take_changed().remove("w")
        };
        for scrape in [Scrape::Never, Scrape::Poll, Scrape::Watch] {
            let works = BTreeMap::from([("w".to_owned(), scrape)]);
            lock(&watches.0).works.insert(object.clone(), works);
            lock(&watches.0).seen.clear();
            assert_eq!(note(json!(1), "1"), Some(Scrape::Watch), "it is new");
            assert_eq!(note(json!(1), "1"), None);
            assert_eq!(note(json!(1), "2"), Some(scrape).filter(|s| *s != Scrape::Never));
            assert_eq!(note(json!(2), "3"), Some(Scrape::Watch), "its desired state has changed");
        }
        assert_eq!(note(json!(null), "4"), Some(Scrape::Watch), "none are counted");
    }

    #[test]
    fn kind_that_cannot_be_watched_is_polled_until_it_can_or_no_work_applies_it() {
        let watches = Watches::default();
        let object = identifier(&CONFIGMAPS, &json!({"metadata": {"name": "a"}}));
        let ended = Stop::default();
        let (version, stop) = ("v1".to_owned(), ended.clone());
        let watch = KindWatch { version, is_refused: false, stop };
        lock(&watches.0).kinds.insert(object.kind(), watch);
        lock(&watches.0).works.insert(object, BTreeMap::from([("w".to_owned(), Scrape::Watch)]));
        for is_refused in [true, false] {
            watches.set_refused(&CONFIGMAPS, is_refused);
            assert_eq!(watches.take_changed(), BTreeMap::from([("w".to_owned(), Scrape::Watch)]));
            assert_eq!(watches.needs_polling("w"), is_refused);
            assert_eq!(watches.refused().contains(&"configmaps".to_owned()), is_refused);
            watches.set_refused(&CONFIGMAPS, is_refused);
            assert!(watches.take_changed().is_empty(), "it is known");
        }
        assert!(!ended.raised());
        watches.retain(|_| false);
        assert!(ended.raised() && lock(&watches.0).kinds.is_empty());
    }

    #[test]
    fn echo_of_an_own_write_is_no_change() {
        let (watches, metadata) =
            (Watches::default(), json!({"name": "a", "resourceVersion": "1"}));
        let object = identifier(&CONFIGMAPS, &json!({"metadata": metadata}));
        let works = BTreeMap::from([("w".to_owned(), Scrape::Watch)]);
        lock(&watches.0).works.insert(object, works.clone());
        let note = |version: &str| {
            let metadata = json!({"name": "a", "resourceVersion": version});
            let document = Document::Whole(json!({"metadata": metadata}));
            watches.note(&CONFIGMAPS, &document, false);
            watches.take_changed()
        };
        watches.wrote(&CONFIGMAPS, &json!({"metadata": metadata}));
        assert!(note("1").is_empty());
        assert_eq!(note("2"), works, "another writer");
    }
}
