//! Reflector, as in client-go: a local store of a selection's objects, by name, reduced to what the caller needs.

mod objects;

use std::{
    collections::BTreeMap,
    mem,
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use log::Level;
use serde::de::DeserializeOwned;

use self::objects::Objects;
use crate::{
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
    /// Not listed yet, or the store does not hold all objects.
    Unknown,
    Absent,
    /// The object exists, but it is too large, has another shape, or `parse` refused it.
    Invalid,
    Object(T),
}

#[derive(Debug)]
struct Content<T> {
    objects: Objects<T>,
    /// As in client-go: a list has been complete.
    synced: bool,
    rewinds: u64,
    error: Option<String>,
    /// Why the last state of a single object was ignored.
    invalid: Option<String>,
    /// Whether to log omitted objects.
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

    /// Logs when the store begins to omit objects: too many, too large or invalid ones.
    #[must_use]
    pub fn warning(self) -> Self {
        lock(&self.0).warns = true;
        self
    }

    /// Omits the heaviest objects while all together weigh more than `most`.
    #[must_use]
    pub fn weighing_at_most(self, most: usize, weigh: fn(&T) -> usize) -> Self {
        let mut content = lock(&self.0);
        (content.objects.limits.1, content.objects.limits.2) = (most, weigh);
        drop(content);
        self
    }

    /// Returns whether a list has been complete and within the limit: an object that is not here does not exist.
    pub fn is_complete(&self) -> bool {
        lock(&self.0).is_complete()
    }

    /// How many lists may have been older than the known state, as after a restore of the server.
    pub fn rewinds(&self) -> u64 {
        lock(&self.0).rewinds
    }

    pub fn first_invalid(&self) -> Option<String> {
        lock(&self.0).objects.first_invalid().cloned()
    }

    pub fn revision(&self) -> u64 {
        lock(&self.0).revision
    }

    /// Why the state may be stale, for `/readyz`.
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

    /// Calls `read` with all objects once a list has been complete; `None` stands for an invalid object.
    pub fn read<R>(&self, read: impl FnOnce(&BTreeMap<String, Option<T>>) -> R) -> Option<R> {
        let content = lock(&self.0);
        content.synced.then(|| read(&content.objects.by_name))
    }

    /// Records the answer to a write that was sent at `revision`, unless the store has changed since.
    pub fn put(&self, revision: u64, name: &str, object: Option<T>) {
        let mut content = lock(&self.0);
        if content.revision == revision {
            match object {
                Some(object) => content.set(name.to_owned(), Some(object)),
                None => content.remove(name),
            }
        }
    }

    /// Records that there are no objects, as if their kind is not served.
    pub fn clear(&self) {
        let mut content = lock(&self.0);
        let none = content.empty();
        content.replace(none);
    }

    /// Lists and watches until `stop` is raised. `parse` returns what to keep of an object. `on_change` is called after
    /// each change of an object or of [`last_error`](Self::last_error). A failure changes no object.
    pub fn run<K: DeserializeOwned>(
        &self,
        client: &Client,
        selection: &Selection<'_>,
        stop: &Stop,
        parse: &mut dyn FnMut(K) -> Option<T>,
        on_change: &mut dyn FnMut(),
    ) {
        let mut listed = lock(&self.0).empty();
        let mut was_omitted = false;
        while !stop.raised() {
            Watcher::default().run(client, selection, stop, &mut |event| {
                let mut content = lock(&self.0);
                let before = (content.revision, content.last_error());
                let about = (client, selection);
                let made_room = content.handle(event, &mut listed, about, parse);
                if (content.revision, content.last_error()) != before {
                    let omitted = content.omitted();
                    drop(content);
                    let began = !mem::replace(&mut was_omitted, omitted.is_some());
                    if let Some(invalid) = omitted.filter(|_| began) {
                        log_omitted(selection, &invalid);
                    }
                    on_change();
                }
                match made_room || stop.raised() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        }
        lock(&self.0).error = None;
    }
}

impl<T: Clone + PartialEq> Content<T> {
    /// Records an event; `listed` collects a list until it is complete. Returns whether a change made room for omitted
    /// objects, which only a new list brings.
    fn handle<K: DeserializeOwned>(
        &mut self,
        event: Event<'_>,
        listed: &mut Objects<T>,
        (client, selection): (&Client, &Selection<'_>),
        parse: &mut dyn FnMut(K) -> Option<T>,
    ) -> bool {
        let size = self.objects.size();
        match event {
            Event::Init { rewound } => {
                *listed = self.empty();
                self.rewinds += u64::from(rewound);
            }
            Event::InitApply(document) => {
                let (name, object) = self.read(client, selection, document, parse);
                listed.insert(name, object);
            }
            Event::InitDone => {
                let listed = mem::replace(listed, self.empty());
                self.replace(listed);
            }
            Event::Apply(document) => {
                let (name, object) = self.read(client, selection, document, parse);
                self.set(name, object);
                return self.objects.made_room(size);
            }
            Event::Delete(document) => {
                self.remove(document.name());
                return self.objects.made_room(size);
            }
            Event::Watching => self.error = None,
            Event::Failed(error) => self.error = Some(error.to_string()),
        }
        false
    }

    /// The name of an object and what to keep of it. If a single object is selected and invalid, its last valid state
    /// stays; the log and `/readyz` show the error.
    fn read<K: DeserializeOwned>(
        &mut self,
        client: &Client,
        selection: &Selection<'_>,
        document: Document,
        parse: &mut dyn FnMut(K) -> Option<T>,
    ) -> (String, Option<T>) {
        // An object whose name is too long is invalid, under the beginning of its name.
        let is_named = document.name().len() <= MAX_NAME;
        let name: String = document.name().chars().take(MAX_NAME).collect();
        let target = selection.target;
        let object = match document {
            Document::TooLarge(_) => Err(client.too_large(&ApiRequest::get(target))),
            Document::Whole(object) => client.typed(&target, object),
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

impl<T: PartialEq> Content<T> {
    fn is_complete(&self) -> bool {
        self.synced && !self.objects.truncated
    }

    /// Which objects to warn about, if any: the name of the first invalid one, or empty if there are too many.
    fn omitted(&self) -> Option<String> {
        // Costs a scan of all objects.
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

fn log_omitted(selection: &Selection<'_>, invalid: &str) {
    log_object!(
        Level::Warn, selection.target, invalid = invalid;
        "ignoring some objects: too many, too large or invalid"
    );
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests;
