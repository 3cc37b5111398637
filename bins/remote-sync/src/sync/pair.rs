//! A pair that a worker reconciles: what it observes, and the context of its requests.

use std::{cell::Cell, sync::Arc};

use apiclient::{
    client::{Client, Patch, USUAL_OBJECT},
    discovery::ApiResource,
    error::{Error, Result},
    resource::Target,
    workqueue::WorkItem,
};
use serde_json::Value;

use crate::{
    cache::{
        Answers, ApiResources, ClusterSide, SideObject,
        store::{Answer, ObjectStore},
    },
    model::{
        annotations::{Origin, Uid},
        discovery::ResourceArg,
        key::{self, ObjectKey, Pair},
        object::{Cached, ObjectReader, Role, SMALL, SourceObject, TargetObject},
    },
    sync::{
        SyncContext,
        memory::PairMemory,
        observed::{Observed, SyncRules},
        patch::Desired,
        remote::RemoteSync,
    },
};

/// Memory limit of a response if the pair is not large: the object may have grown, and the server adds fields.
const SMALL_RESPONSE: usize = 2 * SMALL;

/// A pair with all that an attempt needs.
pub(crate) struct PairContext<'a> {
    pub(crate) context: &'a SyncContext,
    pub(crate) remote: &'a RemoteSync,
    pub(crate) id: &'a Pair,
    pub(crate) source: PairObject<'a, SourceObject>,
    pub(crate) target: PairObject<'a, TargetObject>,
    /// The name of the source's cluster in marks.
    pub(super) source_mark: String,
    pub(crate) item: &'a WorkItem<Pair>,
}

/// Logs a line about a pair, identified by its source. The line's own keys follow the message.
macro_rules! log_pair {
    ($level:expr, $pair:expr, $message:literal $(, $key:ident = $value:expr)*) => {{
        let pair = &$pair;
        log::log!(
            $level,
            remote = &*pair.remote.name,
            kind:% = pair.kind(),
            namespace = pair.source.namespace(),
            name = pair.source.name()
            $(, $key:% = $value)*;
            $message
        )
    }};
}
pub(crate) use log_pair;

impl<'a> PairContext<'a> {
    pub(crate) fn new(
        context: &'a SyncContext,
        remote: &'a RemoteSync,
        item: &'a WorkItem<Pair>,
        kinds: ApiResources,
    ) -> Self {
        let (id, names, of) = (&item.key, &remote.names, (context, remote, item));
        let source = (&*remote.source, kinds.source);
        let target = (&*remote.target, kinds.target);
        Self {
            context,
            remote,
            id,
            source: PairObject::new(of, source, names.source_key(&id.key)),
            target: PairObject::new(of, target, names.target_key(&id.key)),
            source_mark: remote.source.cluster.mark(),
            item,
        }
    }

    pub(crate) fn kind(&self) -> &ResourceArg {
        &self.context.settings.resources[self.id.kind]
    }

    pub(crate) fn rules(&self) -> SyncRules {
        SyncRules::new(&self.context.settings, &self.source.kind)
    }

    pub(crate) fn is_large(&self) -> bool {
        self.source.is_large() || self.target.is_large()
    }

    /// Why an attempt is useless until the pair changes: a name is invalid, or an object needs too much memory.
    pub(crate) fn blocked(&self) -> Option<String> {
        if let Err(sentence) = key::check(&self.source.key, &self.target.key) {
            return Some(sentence);
        }
        let which = if self.source.is_too_large() { "source" } else { "target" };
        let most = USUAL_OBJECT >> 10;
        self.is_too_large().then(|| format!("the {which} needs more than {most} KiB of memory"))
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.source.is_too_large() || self.target.is_too_large()
    }

    pub(crate) fn observe(&self) -> Observed {
        let (remote, reader) = (self.remote, &self.context.reader);
        let (source, target) = (self.source.observe(), self.target.observe());
        let (source_cluster, target_cluster) =
            (remote.source.cluster.identity(), remote.target.cluster.uid());
        let (namespace, uid) = (self.target.namespace(), source.as_ref().map(|it| it.uid));
        let (all, none) = (remote.memory(), PairMemory::default());
        let memory = all.get(self.id).unwrap_or(&none);
        Observed {
            uploads: remote.controllers_of_secrets(namespace, uid, memory),
            updated: memory.updated.settled(),
            uploaded: memory.uploaded.settled(),
            place: reader.place(self.source.namespace(), self.source.name(), &reader.finalizer),
            source_cluster,
            target_cluster,
            source,
            target,
        }
    }

    /// Waits for the rate limiters of both clusters; `false` after `stop`. Unused tokens are returned. The remote's
    /// limiter comes first: all remotes share the local one.
    pub(crate) fn begin(&self) -> bool {
        match self.context.settings.local_role {
            Role::Target => self.source.begin() && self.target.begin(),
            Role::Source => self.target.begin() && self.source.begin(),
        }
    }

    pub(crate) fn desired<'b>(
        &'b self,
        source: &'b Value,
        cached: &Cached<SourceObject>,
    ) -> Desired<'b> {
        let reader = &self.context.readers[self.id.kind];
        Desired { reader, source, origin: self.origin(cached) }
    }

    pub(crate) fn origin(&self, source: &Cached<SourceObject>) -> Origin<'_> {
        Origin {
            cluster: &self.source_mark,
            namespace: self.source.namespace(),
            name: self.source.name(),
            uid: source.uid,
            generation: source.value.state.generation,
            finalizer: &self.context.reader.finalizer,
        }
    }

    pub(crate) fn refresh(&self) -> Result<()> {
        let uids = (self.source.observe().map(|it| it.uid), self.target.observe().map(|it| it.uid));
        match self.source.get() {
            // Only a proof decides whether a source that no list has exists.
            Ok(_) if uids.0.is_none() => {}
            source => self.source.refresh(source, uids.0)?,
        }
        self.target.refresh(self.target.get(), uids.1)
    }
}

pub(crate) struct PairObject<'a, T> {
    pub(crate) key: ObjectKey,
    pub(crate) kind: Arc<ApiResource>,
    pub(super) side: &'a ClusterSide<T>,
    remote: &'a RemoteSync,
    reader: &'a ObjectReader,
    item: &'a WorkItem<Pair>,
    /// The store's count of lists before the next request.
    lists: Cell<u64>,
    /// Whether the next request has its token of the rate limiter.
    token: Cell<bool>,
}

impl<'a, T: SideObject> PairObject<'a, T> {
    fn new(
        (context, remote, item): (&'a SyncContext, &'a RemoteSync, &'a WorkItem<Pair>),
        (side, kind): (&'a ClusterSide<T>, Arc<ApiResource>),
        key: ObjectKey,
    ) -> Self {
        Self {
            key,
            kind,
            side,
            remote,
            reader: &context.readers[item.key.kind],
            item,
            lists: Cell::default(),
            token: Cell::default(),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        key::split(&self.key).0
    }

    pub(crate) fn name(&self) -> &str {
        key::split(&self.key).1
    }

    fn store(&self) -> &'a ObjectStore<T> {
        &self.side.stores[self.item.key.kind]
    }

    /// Waits for the rate limiter; `false` after `stop`.
    fn begin(&self) -> bool {
        let cluster = &self.side.cluster;
        self.token.set(cluster.wait_for_token(self.item.urgent, &self.remote.stop).is_ok());
        self.token.get()
    }

    fn is_large(&self) -> bool {
        self.store().get(&self.key).is_some_and(|object| object.large)
    }

    fn is_too_large(&self) -> bool {
        self.store().is_too_large(&self.key)
    }

    pub(crate) fn at(&self) -> Target<'_> {
        self.kind.resource.object_in(self.namespace(), self.name())
    }

    pub(crate) fn ask<R>(&self, request: &dyn Fn(&Client) -> Result<R>) -> Result<R> {
        let cluster = &self.side.cluster;
        if !self.token.take() {
            cluster.wait_for_token(self.item.urgent, &self.remote.stop)?;
        }
        let most = if self.item.large { USUAL_OBJECT } else { SMALL_RESPONSE };
        cluster.send(&mut |client| request(&client.limited_to(most)))
    }

    /// Returns the store's or a response's object, whichever is newer.
    pub(crate) fn observe(&self) -> Option<Cached<T>> {
        self.lists.set(self.store().lists());
        let newest = |answers: &mut Answers| self.store().newest(&self.key, T::answer(answers));
        self.remote.with_answers(&self.item.key, newest)
    }

    pub(crate) fn get(&self) -> Result<Value> {
        self.ask(&|client| client.get(&self.at()))
    }

    /// Sends a patch; a missing object is a conflict.
    pub(crate) fn patch(&self, kind: Patch, patch: &Value) -> Result<Cached<T>> {
        let patched = self.ask(&|client| client.patch(&self.at(), kind, patch));
        self.keep(&patched.map_err(stale)?)
    }

    /// Returns the document, kept from an event or read now.
    pub(crate) fn document(&self, cached: &Cached<T>) -> Result<Value> {
        if let Some(body) = self.store().take_document(&self.key, cached.version) {
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
        self.store().keep_document(&self.key, &cached, object);
        self.note(cached.clone());
        Ok(cached)
    }

    /// Records the object that a response returned.
    pub(crate) fn note(&self, cached: Cached<T>) {
        self.answer(cached.uid, Some(cached));
    }

    pub(crate) fn forget(&self, uid: Uid) {
        self.answer(uid, None);
    }

    /// Keeps the result of a read; NotFound means that the object that was `seen` is gone.
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
        T::read(self.reader, object).ok_or_else(|| odd(&self.at()))
    }

    fn answer(&self, uid: Uid, object: Option<Cached<T>>) {
        let answer = Answer { lists: self.lists.get(), uid, object };
        let note = |answers: &mut Answers| *T::answer(answers) = Some(answer);
        self.remote.with_answers(&self.item.key, note);
    }
}

impl<T> Drop for PairObject<'_, T> {
    fn drop(&mut self) {
        if self.token.get() {
            self.side.cluster.limiter().put_back();
        }
    }
}

/// Turns a 404 into a conflict: the decision was based on an outdated state.
pub(crate) fn stale(error: Error) -> Error {
    match error {
        Error::NotFound(sentence) => Error::Conflict(sentence),
        error => error,
    }
}

/// The error for a response that is not a valid object.
pub(crate) fn odd(place: &Target<'_>) -> Error {
    Error::BadPeer(format!("{place}: the answer has no uid or resourceVersion of the usual form"))
}
