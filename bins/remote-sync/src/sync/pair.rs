//! A pair that a worker reconciles: what is observed of it, and the context of its requests.

use apiclient::{
    client::USUAL_OBJECT, error::Result, rate_limiter::Priority, resource::Resource,
    workqueue::WorkItem,
};
use serde_json::Value;

use crate::{
    cache::ApiResources,
    connection::Connection,
    model::{
        annotations::Origin,
        discovery::ResourceArg,
        key::{self, Pair},
        object::{Cached, SMALL, SourceObject, TargetObject},
    },
    settings::Direction,
    sync::{
        SyncContext,
        observed::{Observed, SyncRules},
        pair_object::{PairObject, Place},
        patch::Desired,
        remote::RemoteSync,
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
    pub(crate) source: PairObject<'a, SourceObject>,
    pub(crate) target: PairObject<'a, TargetObject>,
    /// How marks name the source's cluster.
    pub(super) source_mark: String,
    pub(crate) item: &'a WorkItem<Pair>,
}

/// A log line about a pair, which its source identifies; the line's own keys follow the message.
macro_rules! log_pair {
    ($level:expr, $pair:expr, $message:literal $(, $key:ident = $value:expr)*) => {{
        let pair = &$pair;
        log::log!(
            $level,
            remote = &*pair.remote.name,
            kind:% = pair.kind(),
            namespace = &*pair.source.namespace,
            name = &*pair.source.name
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
        item: &'a WorkItem<Pair>,
    ) -> Option<Self> {
        let id = &item.key;
        let kinds = ApiResources::of(&remote.source, &remote.target, id.kind)?;
        let (namespace, name) = key::split(&id.key);
        let most = if item.large { USUAL_OBJECT } else { SMALL_RESPONSE };
        let reader = &context.readers[id.kind];
        let place = |cluster: &'a Connection, resource: &Resource| Place {
            remote,
            id,
            cluster,
            resource: resource.clone(),
            reader,
            most,
        };
        Some(Self {
            context,
            remote,
            id,
            source: PairObject::new(
                place(&remote.source.cluster, &kinds.source.resource),
                remote.names.source(namespace, name),
                &remote.source.stores[id.kind],
            ),
            target: PairObject::new(
                place(&remote.target.cluster, &kinds.target.resource),
                remote.names.target(namespace, name),
                &remote.target.stores[id.kind],
            ),
            kinds,
            source_mark: remote.source.cluster.mark(),
            item,
        })
    }

    pub(crate) fn kind(&self) -> &ResourceArg {
        &self.context.settings.resources[self.id.kind]
    }

    pub(crate) fn rules(&self) -> SyncRules {
        SyncRules::new(&self.context.settings, &self.kinds)
    }

    pub(crate) fn is_large(&self) -> bool {
        self.source.is_large() || self.target.is_large()
    }

    /// Why no attempt is of use until the pair changes: a name that is invalid, or an object that costs too much
    /// memory.
    pub(crate) fn blocked(&self) -> Option<String> {
        let (namespace, name) = key::split(&self.id.key);
        if let Err(sentence) = self.remote.names.check(namespace, name) {
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
        let memory = remote.memory().get(self.id).cloned().unwrap_or_default();
        Observed {
            uploads: self.observe_secrets(source.as_ref().map(|it| it.uid), &memory),
            updated: memory.updated.settled(),
            uploaded: memory.uploaded.settled(),
            place: reader.place(&self.source.namespace, &self.source.name, &reader.finalizer),
            source_cluster: remote.source.cluster.uid(),
            source_marks: remote.source.cluster.marks(),
            target_cluster: remote.target.cluster.uid(),
            source,
            target,
        }
    }

    /// Waits for its turn at both clusters, which costs nothing if no request follows; `false` at the end. At the
    /// remote's own first: for the local one all remotes wait.
    pub(crate) fn begin(&self) -> bool {
        let priority = if self.item.urgent { Priority::Urgent } else { Priority::Backlog };
        match self.context.settings.direction {
            Direction::Pull => self.source.begin(priority) && self.target.begin(priority),
            Direction::Push => self.target.begin(priority) && self.source.begin(priority),
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
            namespace: &self.source.namespace,
            name: &self.source.name,
            uid: source.uid,
            generation: source.value.state.generation,
            finalizer: &self.context.reader.finalizer,
        }
    }

    pub(crate) fn refresh(&self) -> Result<()> {
        let uids = (self.source.observe().map(|it| it.uid), self.target.observe().map(|it| it.uid));
        match self.source.get() {
            // Whether a source that is in no list exists is for its proof to say.
            Ok(_) if uids.0.is_none() => {}
            source => self.source.refresh(source, uids.0)?,
        }
        self.target.refresh(self.target.get(), uids.1)
    }
}
