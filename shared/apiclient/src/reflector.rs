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
    json::{Document, MAX_NAME},
    lock::lock,
    log_object,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};

/// The objects of one selection. Clones share them.
#[derive(Debug)]
pub struct Store<T>(Arc<Mutex<Content<T>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// Not listed yet, or perhaps among those that were left out.
    Unknown,
    Absent,
    /// It is too large, has another shape, or the parser refused it.
    Invalid,
    Object(T),
}

/// The most objects, the most that all may weigh together, and the weight of one.
type Limits<T> = (usize, usize, fn(&T) -> usize);

/// Objects by name, within limits; `None` stands for an invalid object, or one left out as the heaviest.
#[derive(Debug)]
struct Objects<T> {
    limits: Limits<T>,
    by_name: BTreeMap<String, Option<T>>,
    /// Of all together.
    weight: usize,
    /// More objects exist than the limit.
    truncated: bool,
    /// Some were left out as the heaviest.
    left_out: usize,
}

#[derive(Debug)]
struct Content<T> {
    objects: Objects<T>,
    /// A list was complete.
    synced: bool,
    rewinds: u64,
    /// The last failure of the list or watch.
    error: Option<String>,
    /// Why the last state of a single object is not used.
    invalid: Option<String>,
    /// Whether to log that objects are left out.
    warns: bool,
    revision: u64,
}

impl<T: Clone + PartialEq> Store<T> {
    /// Keeps at most `limit` objects.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Content {
            objects: Objects::within((limit, usize::MAX, |_| 0)),
            synced: false,
            rewinds: 0,
            error: None,
            invalid: None,
            warns: false,
            revision: 0,
        })))
    }

    /// Logs once when objects begin to be left out: too many, too large or invalid ones.
    #[must_use]
    pub fn warning(self) -> Self {
        lock(&self.0).warns = true;
        self
    }

    /// Leaves out the heaviest objects where all weigh more than `most` together.
    #[must_use]
    pub fn weighing_at_most(self, most: usize, weigh: fn(&T) -> usize) -> Self {
        let mut content = lock(&self.0);
        (content.objects.limits.1, content.objects.limits.2) = (most, weigh);
        drop(content);
        self
    }

    /// Whether a list was complete and within the limit: what is not here does not exist.
    pub fn is_complete(&self) -> bool {
        lock(&self.0).is_complete()
    }

    /// Lists so far that may be older than what was known, as after a restore of the server.
    pub fn rewinds(&self) -> u64 {
        lock(&self.0).rewinds
    }

    pub fn first_invalid(&self) -> Option<String> {
        lock(&self.0).objects.first_invalid().cloned()
    }

    pub fn revision(&self) -> u64 {
        lock(&self.0).revision
    }

    /// Why objects may have changed unseen, for `/readyz`.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.0).last_error()
    }

    pub fn get(&self, name: &str) -> Lookup<T> {
        let content = lock(&self.0);
        match content.objects.by_name.get(name) {
            Some(Some(object)) => Lookup::Object(object.clone()),
            Some(None) => Lookup::Invalid,
            None if content.is_complete() => Lookup::Absent,
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
                Some(object) => content.set(name.to_owned(), Some(object)),
                None => content.remove(name),
            }
        }
    }

    /// Records that there are no objects, as where their kind is not served.
    pub fn clear(&self) {
        let mut content = lock(&self.0);
        let none = content.empty();
        content.replace(none);
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
        let mut listed = lock(&self.0).empty();
        let mut was_partial = false;
        while !stop.raised() {
            Watcher::default().run(client, selection, stop, &mut |event| {
                let mut content = lock(&self.0);
                let before = (content.revision, content.last_error());
                let size = content.objects.size();
                let is_change = matches!(&event, Event::Apply(_) | Event::Delete(_));
                match event {
                    Event::Init { rewound } => {
                        listed = content.empty();
                        content.rewinds += u64::from(rewound);
                    }
                    Event::InitApply(document) => {
                        let (name, object) = content.read(client, selection, document, parse);
                        listed.insert(name, object);
                    }
                    Event::InitDone => {
                        let listed = mem::replace(&mut listed, content.empty());
                        content.replace(listed);
                    }
                    Event::Apply(document) => {
                        let (name, object) = content.read(client, selection, document, parse);
                        content.set(name, object);
                    }
                    Event::Delete(document) => content.remove(document.name()),
                    Event::Watching => content.error = None,
                    Event::Failed(error) => content.error = Some(error.to_string()),
                }
                let is_changed = (content.revision, content.last_error()) != before;
                // Only a list brings objects that were left out, once others make room.
                let made_room = is_change && content.objects.made_room(size);
                if is_changed {
                    let omitted = content.omitted();
                    drop(content);
                    let is_partial = omitted.is_some();
                    if let Some(invalid) = omitted.filter(|_| !was_partial) {
                        log_object!(
                            Level::Warn, selection.target, invalid = invalid;
                            "ignoring some objects: too many, too large or invalid"
                        );
                    }
                    was_partial = is_partial;
                    on_change();
                }
                if made_room || stop.raised() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
        }
        lock(&self.0).error = None;
    }
}

impl<T: Clone + PartialEq> Content<T> {
    /// The name of an object and what is kept of it. A selection of one object keeps the last known state of an
    /// invalid one, logs the error and shows it on `/readyz`.
    fn read<K: DeserializeOwned>(
        &mut self,
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
        let before = mem::replace(&mut self.invalid, invalid.map(ToString::to_string));
        if let (Some(error), None) = (invalid, before) {
            log_object!(
                Level::Warn, target, server = client.name(), error:% = error;
                "keeping the last known state"
            );
        }
        let object = match invalid {
            Some(_) => self.objects.by_name.get(&name).cloned().flatten(),
            None => object.ok().filter(|_| is_named).and_then(parse),
        };
        (name, object)
    }
}

impl<T: PartialEq> Objects<T> {
    fn within(limits: Limits<T>) -> Self {
        Self { limits, by_name: BTreeMap::new(), weight: 0, truncated: false, left_out: 0 }
    }

    /// Inserts an object, and leaves out the heaviest ones until the others are within the limit; returns whether
    /// anything has changed.
    fn insert(&mut self, name: String, object: Option<T>) -> bool {
        let (count, most, _) = self.limits;
        let known = self.by_name.get(&name);
        if known == Some(&object) {
            return false;
        }
        if known.is_none() && self.by_name.len() >= count {
            return !mem::replace(&mut self.truncated, true);
        }
        self.weight += self.weigh(object.as_ref());
        let before = self.by_name.insert(name, object).flatten();
        self.weight -= self.weigh(before.as_ref());
        while self.weight > most {
            let weigh = self.limits.2;
            let objects = self.by_name.values_mut().filter(|object| object.is_some());
            let heaviest = objects.max_by_key(|object| object.as_ref().map_or(0, weigh));
            let Some(heaviest) = heaviest.and_then(Option::take) else { break };
            self.weight -= weigh(&heaviest);
            self.left_out += 1;
        }
        true
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(removed) = self.by_name.remove(name) else { return false };
        self.weight -= self.weigh(removed.as_ref());
        true
    }

    fn first_invalid(&self) -> Option<&String> {
        self.by_name.iter().find(|(_, object)| object.is_none()).map(|(name, _)| name)
    }

    fn weigh(&self, object: Option<&T>) -> usize {
        object.map_or(0, self.limits.2)
    }

    /// The number of objects, their weight, and how often one was left out.
    fn size(&self) -> (usize, usize, usize) {
        (self.by_name.len(), self.weight, self.left_out)
    }

    /// Returns whether objects that were left out may fit now, as `before` there were more or heavier ones.
    fn made_room(&self, before: (usize, usize, usize)) -> bool {
        let (count, weight, left_out) = self.size();
        (self.truncated || left_out > 0)
            && left_out == before.2
            && (count < before.0 || weight < before.1)
    }
}

impl<T: PartialEq> Content<T> {
    /// A list was complete and within the limit: what is not here does not exist.
    fn is_complete(&self) -> bool {
        self.synced && !self.objects.truncated
    }

    /// The name to warn of, if objects are left out: the first invalid one, or empty for the others.
    fn omitted(&self) -> Option<String> {
        // A scan of all objects.
        let invalid = if self.warns { self.objects.first_invalid().cloned() } else { return None };
        invalid.or_else(|| self.objects.truncated.then(String::new))
    }

    fn last_error(&self) -> Option<String> {
        self.error.clone().or_else(|| self.invalid.clone())
    }

    fn empty(&self) -> Objects<T> {
        Objects::within(self.objects.limits)
    }

    fn replace(&mut self, objects: Objects<T>) {
        let before = &self.objects;
        let is_same = before.truncated == objects.truncated && before.by_name == objects.by_name;
        self.revision += u64::from(!self.synced || !is_same);
        if objects.by_name.is_empty() {
            self.invalid = None;
        }
        (self.objects, self.synced) = (objects, true);
    }

    fn set(&mut self, name: String, object: Option<T>) {
        self.revision += u64::from(self.objects.insert(name, object));
    }

    fn remove(&mut self, name: &str) {
        self.invalid = None;
        self.revision += u64::from(self.objects.remove(name));
    }
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests;
