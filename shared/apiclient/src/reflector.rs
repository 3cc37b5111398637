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
    json::Document,
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

#[derive(Debug)]
struct Content<T> {
    limit: usize,
    budget: Option<Budget<T>>,
    /// `None` for an object that is invalid.
    objects: BTreeMap<String, Option<T>>,
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
            budget: None,
            objects: BTreeMap::new(),
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
        lock(&self.0).budget = Some((most, weigh));
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
        content.truncated || content.objects.values().any(Option::is_none)
    }

    pub fn first_invalid(&self) -> Option<String> {
        let content = lock(&self.0);
        let mut objects = content.objects.iter();
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
        match content.objects.get(name) {
            Some(Some(object)) => Lookup::Object(object.clone()),
            Some(None) => Lookup::Invalid,
            None if content.synced && !content.truncated => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    /// Calls `read` with all objects, once a list was complete; `None` is an invalid one.
    pub fn read<R>(&self, read: impl FnOnce(&BTreeMap<String, Option<T>>) -> R) -> Option<R> {
        let content = lock(&self.0);
        content.synced.then(|| read(&content.objects))
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
        lock(&self.0).replace(BTreeMap::new(), (false, false));
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
        let (mut listed, mut omitted) = (BTreeMap::new(), (false, false));
        let (limit, budget) = self.limits();
        while !stop.raised() {
            Watcher::default().run(client, selection, stop, &mut |event| {
                let before = (self.revision(), self.last_error());
                // While a list is on its way, or fails, another one would only delay it.
                let is_listed =
                    matches!(&event, Event::Apply(_) | Event::Delete(_) | Event::Watching);
                match event {
                    Event::Init { rewound } => {
                        (listed, omitted) = (BTreeMap::new(), (false, false));
                        lock(&self.0).rewinds += u64::from(rewound);
                    }
                    Event::InitApply(document) if listed.len() < limit => {
                        let (name, object) = self.read_object(client, selection, document, parse);
                        listed.insert(name, object);
                        omitted.1 |= leave_heaviest(&mut listed, budget);
                    }
                    Event::InitApply(_) => omitted.0 = true,
                    Event::InitDone => lock(&self.0).replace(mem::take(&mut listed), omitted),
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
        (content.limit, content.budget)
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
        let (name, target) = (document.name().to_owned(), selection.target);
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
        let known = || lock(&self.0).objects.get(&name).cloned().flatten();
        let object = if invalid.is_some() { known() } else { object.ok().and_then(parse) };
        (name, object)
    }
}

impl<T: PartialEq> Content<T> {
    fn replace(
        &mut self,
        objects: BTreeMap<String, Option<T>>,
        (truncated, too_heavy): (bool, bool),
    ) {
        let changed = !self.synced || self.truncated != truncated || self.objects != objects;
        if objects.is_empty() {
            self.invalid = None;
        }
        (self.objects, self.truncated, self.synced) = (objects, truncated, true);
        (self.too_heavy, self.lighter) = (too_heavy, false);
        self.revision += u64::from(changed);
    }

    fn set(&mut self, name: &str, object: Option<T>) {
        if self.objects.get(name) == Some(&object) {
            return;
        }
        if self.objects.len() < self.limit || self.objects.contains_key(name) {
            let weight = weight(object.as_ref(), self.budget);
            let before = self.objects.insert(name.to_owned(), object).flatten();
            self.lighter |= self.too_heavy && weight < self::weight(before.as_ref(), self.budget);
            self.too_heavy |= leave_heaviest(&mut self.objects, self.budget);
            self.revision += 1;
        } else if !mem::replace(&mut self.truncated, true) {
            self.revision += 1;
        }
    }

    fn remove(&mut self, name: &str) {
        self.invalid = None;
        self.lighter |= self.too_heavy;
        self.revision += u64::from(self.objects.remove(name).is_some());
    }

    fn has_room(&self) -> bool {
        let has_room = self.truncated && self.objects.len() < self.limit;
        self.synced && (has_room || self.lighter)
    }
}

fn weight<T>(object: Option<&T>, budget: Option<Budget<T>>) -> usize {
    budget.zip(object).map_or(0, |((_, weigh), object)| weigh(object))
}

/// Leaves out the heaviest objects until the others are within the budget; returns whether there was one.
fn leave_heaviest<T>(objects: &mut BTreeMap<String, Option<T>>, budget: Option<Budget<T>>) -> bool {
    let Some((most, _)) = budget else { return false };
    let mut total: usize = objects.values().map(|object| weight(object.as_ref(), budget)).sum();
    let too_heavy = total > most;
    while total > most {
        let heaviest = objects.values_mut().max_by_key(|object| weight(object.as_ref(), budget));
        let Some(heaviest) = heaviest else { break };
        total -= weight(heaviest.take().as_ref(), budget);
    }
    too_heavy
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests;
