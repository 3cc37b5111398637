//! One side of a pair: its requests, and the newest state that its store or a response shows.

use std::cell::Cell;

use apiclient::{
    client::{Client, Patch},
    error::{Error, Result},
    rate_limiter::Priority,
    resource::{Resource, Target},
};
use serde_json::Value;

use crate::{
    cache::store::{Answer, ObjectStore},
    connection::Connection,
    model::{
        annotations::Uid,
        key::{self, ObjectKey, Pair},
        object::{Cached, ObjectReader, SourceObject, TargetObject},
    },
    sync::{memory::Answers, remote::RemoteSync},
};

/// Where an object is, and how it is reached.
pub(super) struct Place<'a> {
    pub(super) remote: &'a RemoteSync,
    pub(super) id: &'a Pair,
    pub(super) cluster: &'a Connection,
    pub(super) resource: Resource,
    pub(super) reader: &'a ObjectReader,
    /// Memory that a response may cost.
    pub(super) most: usize,
}

/// One side of a pair: how its document is read, and what a request showed of it.
pub(crate) trait SideObject: Clone + PartialEq {
    fn read(reader: &ObjectReader, object: &Value) -> Option<Cached<Self>>;

    fn answer(answers: &mut Answers) -> &mut Option<Answer<Self>>;
}

impl SideObject for SourceObject {
    fn read(reader: &ObjectReader, object: &Value) -> Option<Cached<Self>> {
        reader.source(object)
    }

    fn answer(answers: &mut Answers) -> &mut Option<Answer<Self>> {
        &mut answers.source
    }
}

impl SideObject for TargetObject {
    fn read(reader: &ObjectReader, object: &Value) -> Option<Cached<Self>> {
        reader.target(object)
    }

    fn answer(answers: &mut Answers) -> &mut Option<Answer<Self>> {
        &mut answers.target
    }
}

pub(crate) struct PairObject<'a, T> {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) key: ObjectKey,
    place: Place<'a>,
    store: &'a ObjectStore<T>,
    /// The store's lists before the next request.
    lists: Cell<u64>,
    /// A token of the rate limit for the next request.
    token: Cell<bool>,
}

impl<'a, T: SideObject> PairObject<'a, T> {
    pub(super) fn new(
        place: Place<'a>,
        (namespace, name): (String, String),
        store: &'a ObjectStore<T>,
    ) -> Self {
        let key = key::of(&namespace, &name);
        let (lists, token) = (Cell::default(), Cell::default());
        Self { namespace, name, key, place, store, lists, token }
    }

    /// Waits for the rate limit; `false` at the end.
    pub(super) fn begin(&self, priority: Priority) -> bool {
        let Place { cluster, remote, .. } = &self.place;
        self.token.set(cluster.wait_for_token(priority, &remote.turns).is_ok());
        self.token.get()
    }

    pub(super) fn is_large(&self) -> bool {
        self.store.get(&self.key).is_some_and(|object| object.large)
    }

    pub(super) fn is_too_large(&self) -> bool {
        self.store.is_too_large(&self.key)
    }

    pub(crate) fn at(&self) -> Target<'_> {
        self.place.resource.object_in(&self.namespace, &self.name)
    }

    pub(crate) fn ask<R>(&self, request: &dyn Fn(&Client) -> Result<R>) -> Result<R> {
        let Place { cluster, remote, most, .. } = &self.place;
        if !self.token.take() {
            cluster.wait_for_token(Priority::Urgent, &remote.turns)?;
        }
        cluster.send(&mut |client| request(&client.limited_to(*most)))
    }

    /// The object as the store or a response has it, whichever is newer.
    pub(crate) fn observe(&self) -> Option<Cached<T>> {
        self.lists.set(self.store.lists());
        let newest = |answers: &mut Answers| self.store.newest(&self.key, T::answer(answers));
        self.place.remote.with_answers(self.place.id, newest)
    }

    pub(crate) fn get(&self) -> Result<Value> {
        self.ask(&|client| client.get(&self.at()))
    }

    /// Sends a patch; an object that is gone is a conflict.
    pub(crate) fn patch(&self, kind: Patch, patch: &Value) -> Result<Cached<T>> {
        let patched = self.ask(&|client| client.patch(&self.at(), kind, patch));
        self.keep(&patched.map_err(stale)?)
    }

    /// Its document: kept from its event, or read.
    pub(crate) fn document(&self, cached: &Cached<T>) -> Result<Value> {
        if let Some(body) = self.store.take_document(&self.key, cached.version) {
            return Ok(body);
        }
        let body = self.get().map_err(stale)?;
        if self.read(&body)? == *cached {
            return Ok(body);
        }
        self.keep(&body)?;
        Err(Error::Conflict(format!("{} changed in the meantime", self.at())))
    }

    pub(crate) fn keep(&self, object: &Value) -> Result<Cached<T>> {
        let cached = self.read(object)?;
        self.store.keep_document(&self.key, &cached, object);
        self.note(cached.clone());
        Ok(cached)
    }

    /// Notes what a response means for it.
    pub(crate) fn note(&self, cached: Cached<T>) {
        self.answer(Answer::object(self.lists.get(), cached));
    }

    pub(crate) fn forget(&self, uid: Uid) {
        self.answer(Answer::absent(self.lists.get(), uid));
    }

    /// Keeps what a request showed, also that the object that was `seen` is gone.
    pub(crate) fn refresh(&self, shown: Result<Value>, seen: Option<Uid>) -> Result<()> {
        match (shown, seen) {
            (Ok(object), _) => self.keep(&object).map(drop),
            (Err(Error::NotFound(_)), seen) => {
                seen.into_iter().for_each(|uid| self.forget(uid));
                Ok(())
            }
            (Err(error), _) => Err(error),
        }
    }

    pub(crate) fn read(&self, object: &Value) -> Result<Cached<T>> {
        T::read(self.place.reader, object).ok_or_else(|| odd(&self.at()))
    }

    fn answer(&self, answer: Answer<T>) {
        let note = |answers: &mut Answers| *T::answer(answers) = Some(answer);
        self.place.remote.with_answers(self.place.id, note);
    }
}

impl<T> Drop for PairObject<'_, T> {
    fn drop(&mut self) {
        if self.token.get() {
            self.place.cluster.limiter().put_back();
        }
    }
}

/// A 404 as a conflict: the decision was based on an older state.
pub(crate) fn stale(error: Error) -> Error {
    match error {
        Error::NotFound(sentence) => Error::Conflict(sentence),
        error => error,
    }
}

/// The error for a response that cannot be read as an object.
pub(crate) fn odd(place: &Target<'_>) -> Error {
    Error::BadPeer(format!("{place}: the answer has no uid or resourceVersion of the usual form"))
}
