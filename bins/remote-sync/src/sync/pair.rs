//! A pair that a worker reconciles: what is observed of it, requests for its objects, and their responses, which the next
//! decision sees until the stores have them.

use std::{cell::Cell, time::Instant};

use apiclient::{
    client::USUAL_OBJECT,
    error::{Error, Result},
    rate_limiter::{Admission, Priority},
    resource::Target,
};
use serde_json::Value;

use crate::{
    cache::{
        cluster::{ApiResources, Request, Turn},
        store::Answer,
    },
    model::{
        annotations::{Origin, Uid},
        discovery::ResourceArg,
        key::{self, ObjectKey, Pair},
        object::{Cached, ObjectReader, SMALL, SourceObject, TargetObject},
    },
    settings::Direction,
    sync::{
        context::SyncContext,
        desired::Desired,
        observed::{Observed, SyncRules},
        remote::RemoteSync,
        workqueue::WorkItem,
    },
};

/// Memory that a response may cost for a pair that is not large: an object may have grown, and its server adds fields.
const SMALL_RESPONSE: usize = 2 * SMALL;

/// A pair with everything that its attempt needs.
pub(crate) struct PairContext<'a> {
    pub(crate) context: &'a SyncContext,
    pub(crate) remote: &'a RemoteSync,
    pub(crate) id: &'a Pair,
    pub(crate) kinds: ApiResources,
    /// Namespace and name.
    pub(crate) source: (String, String),
    pub(crate) target: (String, String),
    pub(crate) source_key: ObjectKey,
    pub(crate) target_key: ObjectKey,
    /// How marks name the source's cluster.
    source_mark: String,
    /// The time at which the pair was enqueued.
    pub(crate) since: Instant,
    priority: Priority,
    source_turn: Turn<'a>,
    target_turn: Turn<'a>,
    /// Memory that each of its objects may cost.
    most: usize,
    /// The lists of source and target before the next request.
    lists: Cell<[u64; 2]>,
}

/// A log line about a pair, which its source identifies; the line's own keys follow the message.
macro_rules! log_pair {
    ($level:expr, $pair:expr, $message:literal $(, $key:ident = $value:expr)*) => {{
        let pair = &$pair;
        log::log!(
            $level,
            remote = &*pair.remote.name,
            kind:% = pair.kind(),
            namespace = &*pair.source.0,
            name = &*pair.source.1
            $(, $key:% = $value)*;
            $message
        )
    }};
}
pub(crate) use log_pair;

impl<'a> PairContext<'a> {
    /// `None` while its kind is not found on both sides.
    pub(crate) fn new(
        context: &'a SyncContext,
        remote: &'a RemoteSync,
        item: &'a WorkItem,
    ) -> Option<Self> {
        let WorkItem { pair, since, urgent, large } = item;
        let kinds = ApiResources::of(&remote.source, &remote.target, pair.kind)?;
        let (namespace, name) = key::split(&pair.key);
        let source = remote.names.source(namespace, name);
        let target = remote.names.target(namespace, name);
        let source_key = key::of(&source.0, &source.1);
        let target_key = key::of(&target.0, &target.1);
        let (since, most) = (*since, if *large { USUAL_OBJECT } else { SMALL_RESPONSE });
        let priority = if *urgent { Priority::Urgent } else { Priority::Backlog };
        let turn = |cluster| Turn::new(cluster, &remote.turns);
        let (source_turn, target_turn) =
            (turn(&remote.source.cluster), turn(&remote.target.cluster));
        let id = pair;
        let pair = Self {
            context,
            remote,
            id,
            kinds,
            source,
            target,
            source_key,
            target_key,
            source_mark: remote.source.cluster.mark(),
            since,
            priority,
            source_turn,
            target_turn,
            most,
            lists: Cell::default(),
        };
        Some(pair)
    }

    /// The reader for objects of the kind.
    pub(crate) fn reader(&self) -> &'a ObjectReader {
        &self.context.readers[self.id.kind]
    }

    /// The kind as `-resource` names it.
    pub(crate) fn kind(&self) -> &ResourceArg {
        &self.context.settings.resources[self.id.kind]
    }

    pub(crate) fn rules(&self) -> SyncRules {
        SyncRules::new(&self.context.settings, &self.kinds)
    }

    /// Returns whether it is reconciled as a pair of small objects.
    pub(crate) fn is_small(&self) -> bool {
        self.most == SMALL_RESPONSE
    }

    /// Returns whether one of its objects is large.
    pub(crate) fn is_large(&self) -> bool {
        let source = self.remote.source.stores[self.id.kind].get(&self.source_key);
        let target = self.remote.target.stores[self.id.kind].get(&self.target_key);
        source.is_some_and(|source| source.large) || target.is_some_and(|target| target.large)
    }

    /// Why no attempt is of use until the pair changes: a name that is invalid, or an object that costs too much memory.
    pub(crate) fn blocked(&self) -> Option<String> {
        let (namespace, name) = key::split(&self.id.key);
        if let Err(sentence) = self.remote.names.check(namespace, name) {
            return Some(sentence);
        }
        let source = self.remote.source.stores[self.id.kind].is_too_large(&self.source_key);
        let which = if source { "source" } else { "target" };
        let most = USUAL_OBJECT >> 10;
        self.is_too_large().then(|| format!("the {which} needs more than {most} KiB of memory"))
    }

    /// Returns whether an object costs too much memory to be read.
    pub(crate) fn is_too_large(&self) -> bool {
        let (remote, kind) = (self.remote, self.id.kind);
        remote.source.stores[kind].is_too_large(&self.source_key)
            || remote.target.stores[kind].is_too_large(&self.target_key)
    }

    /// The observed state, as of `now`.
    pub(crate) fn observe(&self, now: Instant) -> Observed {
        let (remote, settings) = (self.remote, &self.context.settings);
        let (finalizer, kind) = (&self.context.reader.finalizer, self.id.kind);
        let (sources, targets) = (&remote.source.stores[kind], &remote.target.stores[kind]);
        self.lists.set([sources.lists(), targets.lists()]);
        let (source, target, namespace, uploads) = remote.with_answers(self.id, |answers| {
            let uploads = remote.target.secrets.iter().zip(&settings.secrets).enumerate();
            let uploads = uploads.map(|(index, (store, name))| {
                let answer = answers.secrets.entry(index).or_default();
                let newest = || store.newest(&key::of(&self.target.0, name), answer);
                (!remote.target.is_parked(store)).then(newest).flatten()
            });
            let uploads: Vec<_> = uploads.collect();
            (
                sources.newest(&self.source_key, &mut answers.source),
                targets.newest(&self.target_key, &mut answers.target),
                remote
                    .target
                    .namespaces
                    .newest(&key::of("", &self.target.0), &mut answers.namespace),
                uploads,
            )
        });
        let memory = remote.recall(self.id);
        let deleted = source.as_ref().is_none_or(|source| source.value.state.terminating);
        let owned = deleted && namespace.as_ref().is_some_and(|found| found.value.owner.is_some());
        Observed {
            source,
            target,
            namespace,
            namespace_shared: owned && remote.shares_namespace(self.id, &memory, now),
            uploads,
            // A dry run looks for no upload that was lost.
            secrets_checked: memory.secrets_checked || settings.dry_run,
            settled: memory.settled,
            fight: memory.writes.fight(now),
            place: self.context.reader.place(&self.source.0, &self.source.1, finalizer),
            name: self.target.1.clone(),
            instance: self.context.reader.digester.of_text(&self.instance()),
            source_cluster: remote.source.cluster.uid(),
            source_marks: remote.source_marks(&self.context.reader.digester),
            target_cluster: remote.target.cluster.uid(),
        }
    }
}

impl PairContext<'_> {
    /// Waits for its turn at both clusters, which costs nothing if no request follows. At the remote's own first:
    /// for the local one all remotes wait.
    pub(crate) fn begin(&self) -> Admission {
        let yields = || self.priority == Priority::Backlog && self.remote.queue.wants_yield();
        let mut turns = [&self.source_turn, &self.target_turn];
        if self.context.settings.direction == Direction::Push {
            turns.reverse();
        }
        let mut waited = false;
        for turn in turns {
            match turn.begin(self.priority, &yields) {
                Admission::Admitted { waited: now } => waited |= now,
                ended => return ended,
            }
        }
        Admission::Admitted { waited }
    }

    pub(crate) fn ask_source<T>(&self, request: Request<'_, T>) -> Result<T> {
        self.source_turn.ask(|client| request(&client.limited_to(self.most)))
    }

    pub(crate) fn ask_target<T>(&self, request: Request<'_, T>) -> Result<T> {
        self.target_turn.ask(|client| request(&client.limited_to(self.most)))
    }

    pub(crate) fn at_source(&self) -> Target<'_> {
        self.kinds.source.resource.object_in(&self.source.0, &self.source.1)
    }

    pub(crate) fn at_target(&self) -> Target<'_> {
        self.kinds.target.resource.object_in(&self.target.0, &self.target.1)
    }

    /// The name of a Secret at the source: with the suffix that the source has.
    pub(crate) fn uploaded_name(&self, index: usize) -> String {
        self.remote.names.source("", &self.context.settings.secrets[index]).1
    }

    /// This instance, as namespaces are annotated with it.
    pub(crate) fn instance(&self) -> String {
        self.context.reader.instance(&self.source_mark)
    }

    pub(crate) fn desired<'b>(
        &'b self,
        source: &'b Value,
        cached: &Cached<SourceObject>,
    ) -> Desired<'b> {
        let reader = self.reader();
        let origin = Origin {
            cluster: &self.source_mark,
            namespace: &self.source.0,
            name: &self.source.1,
            uid: cached.uid,
            generation: cached.value.state.generation.into(),
            finalizer: &reader.finalizer,
        };
        Desired { reader, source, origin }
    }

    /// The source's document: kept from its event, or read.
    pub(crate) fn source_document(&self, source: &Cached<SourceObject>) -> Result<Value> {
        let store = &self.remote.source.stores[self.id.kind];
        if let Some(body) = store.take_document(&self.source_key, source.version) {
            return Ok(body);
        }
        let body = self.ask_source(&|client| client.get(&self.at_source())).map_err(stale)?;
        match self.read_source(&body)? == *source {
            true => Ok(body),
            false => self.store_source(body).and_then(|_| Err(changed(&self.at_source()))),
        }
    }

    /// The target's document: kept from its event, or read.
    pub(crate) fn target_document(&self, target: &Cached<TargetObject>) -> Result<Value> {
        let store = &self.remote.target.stores[self.id.kind];
        if let Some(body) = store.take_document(&self.target_key, target.version) {
            return Ok(body);
        }
        let body = self.ask_target(&|client| client.get(&self.at_target())).map_err(stale)?;
        match self.read_target(&body)? == *target {
            true => Ok(body),
            false => self.store_target(body).and_then(|_| Err(changed(&self.at_target()))),
        }
    }

    /// Keeps a response about the source.
    pub(crate) fn store_source(&self, object: Value) -> Result<Cached<SourceObject>> {
        let cached = self.read_source(&object)?;
        let store = &self.remote.source.stores[self.id.kind];
        store.keep_document(&self.source_key, &cached, &object);
        let answer = Answer::object(self.lists.get()[0], cached.clone());
        self.remote.with_answers(self.id, |answers| answers.source = Some(answer));
        Ok(cached)
    }

    /// Keeps a response about the target.
    pub(crate) fn store_target(&self, object: Value) -> Result<Cached<TargetObject>> {
        let cached = self.read_target(&object)?;
        let store = &self.remote.target.stores[self.id.kind];
        store.keep_document(&self.target_key, &cached, &object);
        self.note_target(cached.clone());
        Ok(cached)
    }

    /// Notes what a response means for the target.
    pub(crate) fn note_target(&self, target: Cached<TargetObject>) {
        let answer = Answer::object(self.lists.get()[1], target);
        self.remote.with_answers(self.id, |answers| answers.target = Some(answer));
    }

    pub(crate) fn forget_source(&self, uid: Uid) {
        let answer = Answer::absent(self.lists.get()[0], uid);
        self.remote.with_answers(self.id, |answers| answers.source = Some(answer));
    }

    pub(crate) fn forget_target(&self, uid: Uid) {
        let answer = Answer::absent(self.lists.get()[1], uid);
        self.remote.with_answers(self.id, |answers| answers.target = Some(answer));
    }

    fn read_source(&self, object: &Value) -> Result<Cached<SourceObject>> {
        self.reader().source(object).ok_or_else(|| odd(&self.at_source()))
    }

    fn read_target(&self, object: &Value) -> Result<Cached<TargetObject>> {
        self.reader().target(object).ok_or_else(|| odd(&self.at_target()))
    }

    /// Records what still differs after the target was written from this state of the source, and what its server
    /// did not keep of it.
    pub(crate) fn record_settled(
        &self,
        source: &Cached<SourceObject>,
        target: &Cached<TargetObject>,
        altered: Option<String>,
    ) {
        self.remote.remember(self.id, |memory| {
            memory.settled.after_update(&source.value.state, &target.value.state);
            memory.set_altered(altered);
        });
    }
}

fn changed(place: &Target<'_>) -> Error {
    Error::Conflict(format!("{place} changed in the meantime"))
}

/// A 404 as a conflict: the decision was based on an older state.
pub(crate) fn stale(error: Error) -> Error {
    match error {
        Error::NotFound(sentence) => Error::Conflict(sentence),
        error => error,
    }
}

/// The error for a response that is no object.
pub(crate) fn odd(place: &Target<'_>) -> Error {
    Error::BadPeer(format!("{place}: the answer has no uid or resourceVersion of the usual form"))
}
