//! One object of a pair, on its cluster: requests for it, and their responses, which the next decision sees until the
//! store has them.

use std::cell::Cell;

use apiclient::{
    client::Patch,
    error::{Error, Result},
    resource::{Resource, Target},
};
use serde_json::Value;

use crate::{
    cache::{
        cluster::{Request, Turn},
        store::{Answer, ObjectStore},
    },
    model::{
        annotations::Uid,
        key::{self, ObjectKey, Pair},
        object::{Cached, ObjectReader},
    },
    sync::{
        memory::Answers,
        pair::{odd, stale},
        remote::RemoteSync,
    },
};

/// Where an object is, and how it is reached.
pub(super) struct Place<'a> {
    pub(super) remote: &'a RemoteSync,
    pub(super) id: &'a Pair,
    pub(super) turn: Turn<'a>,
    pub(super) resource: Resource,
    pub(super) reader: &'a ObjectReader,
    /// Memory that it may cost.
    pub(super) most: usize,
}

/// How its document is read, and where the memory of the pair has what a request showed of it.
type Access<T> =
    (fn(&ObjectReader, &Value) -> Option<Cached<T>>, fn(&mut Answers) -> &mut Option<Answer<T>>);

/// One object of a pair.
pub(crate) struct PairObject<'a, T> {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) key: ObjectKey,
    place: Place<'a>,
    store: &'a ObjectStore<T>,
    access: Access<T>,
    /// The store's lists before the next request.
    lists: Cell<u64>,
}

impl<'a, T: Clone + PartialEq> PairObject<'a, T> {
    pub(super) fn new(
        place: Place<'a>,
        (namespace, name): (String, String),
        store: &'a ObjectStore<T>,
        access: Access<T>,
    ) -> Self {
        let key = key::of(&namespace, &name);
        Self { namespace, name, key, place, store, access, lists: Cell::default() }
    }

    pub(super) fn turn(&self) -> &Turn<'a> {
        &self.place.turn
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

    /// Sends a request to its cluster.
    pub(crate) fn ask<R>(&self, request: Request<'_, R>) -> Result<R> {
        self.place.turn.ask(|client| request(&client.limited_to(self.place.most)))
    }

    /// The object as the store or a response has it, whichever is newer.
    pub(crate) fn observe(&self) -> Option<Cached<T>> {
        self.lists.set(self.store.lists());
        let newest = |answers: &mut Answers| self.store.newest(&self.key, (self.access.1)(answers));
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

    /// Keeps a response about it.
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

    /// Notes that the object with this uid is gone.
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
        (self.access.0)(self.place.reader, object).ok_or_else(|| odd(&self.at()))
    }

    fn answer(&self, answer: Answer<T>) {
        let note = |answers: &mut Answers| *(self.access.1)(answers) = Some(answer);
        self.place.remote.with_answers(self.place.id, note);
    }
}
