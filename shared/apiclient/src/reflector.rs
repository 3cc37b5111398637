//! Reflector, as in client-go: keeps what a caller needs of each listed object, by name.

use std::{
    collections::BTreeMap,
    mem,
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use log::Level;
use serde::de::DeserializeOwned;

use crate::{
    api,
    client::{Client, request::ApiRequest},
    error::Error,
    json::{Document, MAX_NAME},
    lock::lock,
    log_object,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};

/// The objects of one selection. Clones share them.
#[derive(Debug)]
pub struct Store<T>(Arc<Mutex<Content<T>>>);

/// An object of a [`Store`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// Not listed yet, or perhaps among those that were left out.
    Unknown,
    Absent,
    /// It is too large, has another shape, or the parser refused it.
    Invalid,
    Object(T),
}

/// The most that all objects may weigh together, and the weight of one.
type Budget<T> = (usize, fn(&T) -> usize);

/// Objects by name, within a budget; `None` is an invalid one, or one that was left out.
#[derive(Debug)]
struct Objects<T> {
    by_name: BTreeMap<String, Option<T>>,
    /// Of all together.
    weight: usize,
    budget: Option<Budget<T>>,
}

#[derive(Debug)]
struct Content<T> {
    limit: usize,
    objects: Objects<T>,
    /// A list was complete.
    synced: bool,
    /// More objects exist than the limit.
    truncated: bool,
    /// The heaviest objects are left out, as invalid ones.
    too_heavy: bool,
    /// Other objects have become lighter since.
    lighter: bool,
    /// Lists that may be older than what was known.
    rewinds: u64,
    /// The last failure of the list or watch.
    error: Option<String>,
    /// Why the last state of a single object is not used.
    invalid: Option<String>,
    revision: u64,
}

impl<T: Clone + PartialEq> Store<T> {
    /// Keeps at most `limit` objects.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Content {
            limit,
            objects: Objects::within(None),
            synced: false,
            truncated: false,
            too_heavy: false,
            lighter: false,
            rewinds: 0,
            error: None,
            invalid: None,
            revision: 0,
        })))
    }

    /// Leaves out the heaviest objects where all weigh more than `most` together.
    #[must_use]
    pub fn weighing_at_most(self, most: usize, weigh: fn(&T) -> usize) -> Self {
        lock(&self.0).objects.budget = Some((most, weigh));
        self
    }

    /// Whether a list was complete and within the limit: what is not here does not exist.
    pub fn is_complete(&self) -> bool {
        let content = lock(&self.0);
        content.synced && !content.truncated
    }

    /// Lists so far that may be older than what was known, as after a restore of the server.
    pub fn rewinds(&self) -> u64 {
        lock(&self.0).rewinds
    }

    /// Whether some objects are left out: invalid ones, or those beyond the limit.
    pub fn is_partial(&self) -> bool {
        let content = lock(&self.0);
        content.truncated || content.objects.by_name.values().any(Option::is_none)
    }

    pub fn first_invalid(&self) -> Option<String> {
        let content = lock(&self.0);
        let mut objects = content.objects.by_name.iter();
        objects.find(|(_, object)| object.is_none()).map(|(name, _)| name.clone())
    }

    /// Changes so far.
    pub fn revision(&self) -> u64 {
        lock(&self.0).revision
    }

    /// Why objects may have changed unseen, for `/readyz`.
    pub fn last_error(&self) -> Option<String> {
        let content = lock(&self.0);
        content.error.clone().or_else(|| content.invalid.clone())
    }

    pub fn get(&self, name: &str) -> Lookup<T> {
        let content = lock(&self.0);
        match content.objects.by_name.get(name) {
            Some(Some(object)) => Lookup::Object(object.clone()),
            Some(None) => Lookup::Invalid,
            None if content.synced && !content.truncated => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    /// Calls `read` with all objects, once a list was complete; `None` is an invalid one.
    pub fn read<R>(&self, read: impl FnOnce(&BTreeMap<String, Option<T>>) -> R) -> Option<R> {
        let content = lock(&self.0);
        content.synced.then(|| read(&content.objects.by_name))
    }

    /// Records the answer to a write sent at `revision`, unless a watch event has changed anything since.
    pub fn put(&self, revision: u64, name: &str, object: Option<T>) {
        let mut content = lock(&self.0);
        if content.revision == revision {
            match object {
                Some(object) => content.set(name, Some(object)),
                None => content.remove(name),
            }
        }
    }

    /// Records that there are no objects, as where their kind is not served.
    pub fn clear(&self) {
        lock(&self.0).replace(Objects::within(None), (false, false));
    }

    /// Records an error of a request that came before the list, or its end.
    pub fn set_error(&self, error: Option<&Error>) {
        lock(&self.0).error = error.map(ToString::to_string);
    }

    /// Lists and watches until `stop` is raised, and calls `on_change` after each change of an object or of
    /// [`last_error`](Self::last_error). `parse` returns what to keep
    /// of an object. A failure changes no object.
    pub fn run<K: DeserializeOwned>(
        &self,
        client: &Client,
        selection: &Selection<'_>,
        stop: &Stop,
        parse: &mut dyn FnMut(K) -> Option<T>,
        on_change: &mut dyn FnMut(),
    ) {
        let (limit, budget) = self.limits();
        let (mut listed, mut omitted) = (Objects::within(budget), (false, false));
        while !stop.raised() {
            Watcher::default().run(client, selection, stop, &mut |event| {
                let before = (self.revision(), self.last_error());
                // While a list is on its way, or fails, another one would only delay it.
                let is_listed =
                    matches!(&event, Event::Apply(_) | Event::Delete(_) | Event::Watching);
                match event {
                    Event::Init { rewound } => {
                        (listed, omitted) = (Objects::within(budget), (false, false));
                        lock(&self.0).rewinds += u64::from(rewound);
                    }
                    Event::InitApply(document) if listed.by_name.len() < limit => {
                        let (name, object) = self.read_object(client, selection, document, parse);
                        omitted.1 |= listed.insert(name, object);
                    }
                    Event::InitApply(_) => omitted.0 = true,
                    Event::InitDone => {
                        let listed = mem::replace(&mut listed, Objects::within(budget));
                        lock(&self.0).replace(listed, omitted);
                    }
                    Event::Apply(document) => {
                        let (name, object) = self.read_object(client, selection, document, parse);
                        lock(&self.0).set(&name, object);
                    }
                    Event::Delete(document) => lock(&self.0).remove(document.name()),
                    Event::Watching => self.set_error(None),
                    Event::Failed(error) => self.set_error(Some(error)),
                }
                if (self.revision(), self.last_error()) != before {
                    on_change();
                }
                // Only a list brings objects that were left out, once there is room.
                let has_room = lock(&self.0).has_room();
                if is_listed && has_room || stop.raised() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
        }
        self.set_error(None);
    }

    fn limits(&self) -> (usize, Option<Budget<T>>) {
        let content = lock(&self.0);
        (content.limit, content.objects.budget)
    }

    /// The name of an object and what is kept of it. A single one that is invalid keeps its last known state, and is
    /// logged and shown on `/readyz`.
    fn read_object<K: DeserializeOwned>(
        &self,
        client: &Client,
        selection: &Selection<'_>,
        document: Document,
        parse: &mut dyn FnMut(K) -> Option<T>,
    ) -> (String, Option<T>) {
        // The beginning of a name that is too long stands for it, as an invalid object.
        let is_named = document.name().len() <= MAX_NAME;
        let name: String = document.name().chars().take(MAX_NAME).collect();
        let target = selection.target;
        let request = ApiRequest::get(target);
        let object = match document {
            Document::TooLarge(_) => Err(client.too_large(&request)),
            Document::Whole(object) => api::parse(object).ok_or_else(|| {
                client.odd(&request, &format!("not a valid {}", target.resource.kind))
            }),
        };
        let invalid = object.as_ref().err().filter(|_| target.name.is_some());
        let before = mem::replace(&mut lock(&self.0).invalid, invalid.map(ToString::to_string));
        if let (Some(error), None) = (invalid, before) {
            log_object!(
                Level::Warn, target, server = client.name(), error:% = error;
                "keeping the last known state"
            );
        }
        let known = || lock(&self.0).objects.by_name.get(&name).cloned().flatten();
        let object = match invalid {
            Some(_) => known(),
            None => object.ok().filter(|_| is_named).and_then(parse),
        };
        (name, object)
    }
}

impl<T> Objects<T> {
    fn within(budget: Option<Budget<T>>) -> Self {
        Self { by_name: BTreeMap::new(), weight: 0, budget }
    }

    /// Inserts an object, and leaves out the heaviest ones until the others are within the budget; returns whether there
    /// was one.
    fn insert(&mut self, name: String, object: Option<T>) -> bool {
        let budget = self.budget;
        self.weight += weight(object.as_ref(), budget);
        let before = self.by_name.insert(name, object).flatten();
        self.weight -= weight(before.as_ref(), budget);
        let most = budget.map_or(usize::MAX, |(most, _)| most);
        let is_too_heavy = self.weight > most;
        while self.weight > most {
            let objects = self.by_name.values_mut();
            let heaviest = objects.max_by_key(|object| weight(object.as_ref(), budget));
            let Some(heaviest) = heaviest else { break };
            self.weight -= weight(heaviest.take().as_ref(), budget);
        }
        is_too_heavy
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(removed) = self.by_name.remove(name) else { return false };
        self.weight -= weight(removed.as_ref(), self.budget);
        true
    }
}

fn weight<T>(object: Option<&T>, budget: Option<Budget<T>>) -> usize {
    budget.zip(object).map_or(0, |((_, weigh), object)| weigh(object))
}

impl<T: PartialEq> Content<T> {
    fn replace(&mut self, mut objects: Objects<T>, (truncated, too_heavy): (bool, bool)) {
        let is_same = self.objects.by_name == objects.by_name;
        let changed = !self.synced || self.truncated != truncated || !is_same;
        if objects.by_name.is_empty() {
            self.invalid = None;
        }
        objects.budget = self.objects.budget;
        (self.objects, self.truncated, self.synced) = (objects, truncated, true);
        (self.too_heavy, self.lighter) = (too_heavy, false);
        self.revision += u64::from(changed);
    }

    fn set(&mut self, name: &str, object: Option<T>) {
        let objects = &mut self.objects;
        if objects.by_name.get(name) == Some(&object) {
            return;
        }
        if objects.by_name.len() < self.limit || objects.by_name.contains_key(name) {
            let before = objects.weight;
            let left_out = objects.insert(name.to_owned(), object);
            self.lighter |= self.too_heavy && !left_out && objects.weight < before;
            self.too_heavy |= left_out;
            self.revision += 1;
        } else if !mem::replace(&mut self.truncated, true) {
            self.revision += 1;
        }
    }

    fn remove(&mut self, name: &str) {
        self.invalid = None;
        self.lighter |= self.too_heavy;
        self.revision += u64::from(self.objects.remove(name));
    }

    fn has_room(&self) -> bool {
        let has_room = self.truncated && self.objects.by_name.len() < self.limit;
        self.synced && (has_room || self.lighter)
    }
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests;
