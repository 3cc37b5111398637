//! The pairs of one remote: where both sides are, and what is known of each pair beside its objects.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use shared::{lock::lock, stop::Stop};

use crate::{
    cache::cluster::{ClusterClient, SourceSide, TargetSide},
    connection::ClusterIdentity,
    model::{
        annotations::Uid,
        discovery::ApiResource,
        key::{self, Pair},
        mapping::NameMapping,
        object::ObjectReader,
    },
    settings::{Direction, Settings},
    sync::{
        memory::Memory,
        observed::{Observed, SettledDiff, SyncRules},
        orphan::OrphanTracker,
        status::{PairCondition, PairState},
        workqueue::Workqueue,
    },
};

/// A namespace waits this long for the lists that say what else is in it; then it stays.
const UNLISTED_FOR_LONG: Duration = Duration::from_secs(60);

/// Everything between the own cluster and one remote.
pub(crate) struct RemoteSync {
    /// The remote's name.
    pub(crate) name: String,
    pub(crate) names: NameMapping,
    pub(crate) source: Arc<SourceSide>,
    pub(crate) target: Arc<TargetSide>,
    pub(crate) queue: Workqueue,
    pub(crate) orphans: Mutex<OrphanTracker>,
    /// Nothing but its namespace would tell the target of this remote from that of another one.
    needs_namespace: bool,
    /// Raised when the remote goes.
    pub(crate) stop: Stop,
    /// The cluster of the sources that all targets were looked at for.
    looked: Mutex<Option<Uid>>,
    /// Of the source's cluster, as last seen.
    session: Mutex<u64>,
    /// What is known of single pairs beside their objects.
    memory: Mutex<Memory>,
}

/// The kind of a pair as both clusters have it.
#[derive(Clone)]
pub(crate) struct ApiResources {
    pub(crate) source: Arc<ApiResource>,
    pub(crate) target: Arc<ApiResource>,
}

impl RemoteSync {
    pub(crate) fn new(
        name: &str,
        settings: &Settings,
        source: Arc<SourceSide>,
        target: Arc<TargetSide>,
        stop: Stop,
    ) -> Self {
        let orphans = &settings.orphans;
        let most = (usize::try_from(orphans.most).unwrap_or(usize::MAX), orphans.within);
        let pulls = settings.mode.owns_by_name() && settings.direction == Direction::Pull;
        Self {
            name: name.to_owned(),
            names: settings.mapping.names(name),
            source,
            target,
            queue: Workqueue::new(settings.resources.len(), settings.workers, settings.mode),
            orphans: Mutex::new(OrphanTracker::new(orphans.grace, most)),
            needs_namespace: pulls && settings.many(),
            stop,
            looked: Mutex::default(),
            session: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    /// Both clusters.
    pub(crate) fn clusters(&self) -> [&Arc<ClusterClient>; 2] {
        [&self.source.cluster, &self.target.cluster]
    }

    /// Opens the queue for the kinds whose pairs can be worked on, and closes it for the others.
    pub(crate) fn update_gates(&self) {
        if let Ok(session) = self.source.cluster.session()
            && mem::replace(&mut *lock(&self.session), session.number) != session.number
        {
            // What was not there before the outage may be there after it: the grace begins anew.
            lock(&self.orphans).clear();
        }
        for kind in 0..self.source.stores.len() {
            self.queue.open(kind, self.obstacle(kind).is_none());
        }
    }

    /// Whether it is news which cluster the sources are on: before that no target is known to be an orphan.
    pub(crate) fn source_cluster_is_new(&self) -> bool {
        let now = self.source.cluster.uid();
        now.is_some() && mem::replace(&mut *lock(&self.looked), now) != now
    }

    /// Why the pairs of this kind cannot be worked on at present, if they cannot.
    pub(crate) fn obstacle(&self, kind: usize) -> Option<String> {
        let (from, to) = match self.clusters().map(session) {
            [Ok(from), Ok(to)] => (from, to),
            [Err(why), _] | [_, Err(why)] => return Some(why),
        };
        let (source, target) = (&self.source.stores[kind], &self.target.stores[kind]);
        let namespaces = self.target.namespaces.trouble();
        let secrets = self.target.secrets.iter().find_map(|secrets| secrets.trouble());
        let Some(kinds) = self.kinds(kind) else {
            return Some(
                source.trouble().or_else(|| target.trouble()).unwrap_or_else(|| LISTED.into()),
            );
        };
        if kinds.source.namespaced != kinds.target.namespaced {
            let kind = &kinds.source.resource.kind;
            return Some(format!("{kind} is namespaced on one side only"));
        }
        let versions = [&kinds.source, &kinds.target].map(|kind| &kind.resource.version);
        if versions[0] != versions[1] {
            return Some(format!(
                "the source has version {} and the target {}",
                versions[0], versions[1]
            ));
        }
        if self.needs_namespace && !kinds.source.namespaced {
            let kind = &kinds.source.resource.kind;
            return Some(format!(
                "{kind} is cluster-scoped, so several remotes would share its objects"
            ));
        }
        let complete = source.is_complete(from)
            && target.is_complete(to)
            && self.target.is_complete(kinds.source.namespaced, to);
        let trouble = || source.trouble().or_else(|| target.trouble()).or(namespaces).or(secrets);
        (!complete).then(|| trouble().unwrap_or_else(|| LISTED.into()))
    }

    /// Why changes of this kind may go unseen at present, as where a right is lost.
    pub(crate) fn trouble(&self, kind: usize) -> Option<String> {
        let (source, target) = (&self.source.stores[kind], &self.target.stores[kind]);
        let beside = || self.target.secrets.iter().find_map(|secrets| secrets.trouble());
        let trouble = source.trouble().or_else(|| target.trouble());
        trouble.or_else(|| self.target.namespaces.trouble()).or_else(beside)
    }

    /// The kind as both clusters have it, once they do.
    pub(crate) fn kinds(&self, kind: usize) -> Option<ApiResources> {
        let source = self.source.stores[kind].kind()?;
        Some(ApiResources { source, target: self.target.stores[kind].kind()? })
    }

    pub(crate) fn rules(&self, kinds: &ApiResources, settings: &Settings) -> SyncRules {
        SyncRules {
            mode: settings.mode,
            orphans: settings.orphans.policy,
            namespaced: kinds.source.namespaced,
            status: kinds.source.status,
            selective: settings.is_selective(),
        }
    }

    /// All that is known of a pair.
    pub(crate) fn observe(
        &self,
        pair: &Pair,
        settings: &Settings,
        reader: &ObjectReader,
    ) -> Observed {
        let (namespace, name) = key::split(&pair.key);
        let (source_namespace, source_name) = self.names.source(namespace, name);
        let (target_namespace, target_name) = self.names.target(namespace, name);
        let source = &self.source.stores[pair.kind];
        let target = &self.target.stores[pair.kind];
        let namespaces = &self.target.namespaces;
        let found = namespaces.get(&key::of("", &target_namespace));
        let source = source.get(&key::of(&source_namespace, &source_name));
        // Only of interest where it may be deleted.
        let ends = source.as_ref().is_none_or(|source| source.value.state.terminating);
        let owned = ends && found.as_ref().is_some_and(|found| found.value.owner.is_some());
        let unlisted = self.memory().get(pair).is_some_and(|memory| memory.unlisted);
        Observed {
            source,
            target: target.get(&key::of(&target_namespace, &target_name)),
            namespace: found,
            namespace_shared: owned && self.is_shared(pair, namespace, &target_namespace),
            uploads: self
                .target
                .secrets
                .iter()
                .zip(&settings.secrets)
                .map(|(secrets, secret)| secrets.get(&key::of(&target_namespace, secret)))
                .collect(),
            settled: self.settled(pair),
            unlisted,
            place: reader.place(&source_namespace, &source_name, &reader.finalizer),
            name: target_name,
            source_cluster: self.source.cluster.uid(),
            target_cluster: self.target.cluster.uid(),
            accepted: self.is_accepted(settings),
        }
    }

    /// Whether the source of a pair is known.
    pub(crate) fn has_source(&self, pair: &Pair) -> bool {
        let (namespace, name) = key::split(&pair.key);
        let (namespace, name) = self.names.source(namespace, name);
        self.source.stores[pair.kind].has(&key::of(&namespace, &name))
    }

    /// Whether everything on both sides was listed in the sessions that there are now.
    pub(crate) fn is_all_known(&self) -> bool {
        let [Ok(from), Ok(to)] = self.clusters().map(session) else { return false };
        self.source.stores.iter().all(|store| store.is_complete(from))
            && self.target.stores.iter().all(|store| store.is_complete(to))
    }

    /// Whether other pairs have, or will have, an object in the target's namespace: also where that has not
    /// been known for long, as of a kind that cannot be listed.
    fn is_shared(&self, pair: &Pair, namespace: &str, target_namespace: &str) -> bool {
        let waited = self
            .memory()
            .get(pair)
            .and_then(|memory| memory.waiting_since)
            .map(|since| since.elapsed());
        if waited.is_some_and(|waited| waited >= UNLISTED_FOR_LONG) && !self.is_all_known() {
            return true;
        }
        let (_, own) = key::split(&pair.key);
        let sources = self.source.stores.iter().enumerate().any(|(kind, store)| {
            store.has_others(namespace, |name| {
                let name = self.names.canonical_of_source(namespace, name).map(|(_, name)| name);
                name.is_some_and(|name| kind != pair.kind || name != own)
            })
        });
        sources
            || self.target.stores.iter().enumerate().any(|(kind, store)| {
                store.has_others(target_namespace, |name| kind != pair.kind || name != own)
            })
    }

    fn is_accepted(&self, settings: &Settings) -> bool {
        let ClusterIdentity::Known(uid) = self.source.cluster.connection.identity() else {
            return false;
        };
        settings.accepted(&self.name).any(|accepted| accepted == uid)
    }

    pub(crate) fn settled(&self, pair: &Pair) -> SettledDiff {
        self.memory().get(pair).map(|memory| memory.settled).unwrap_or_default()
    }

    /// Remembers a difference that stays, or that there is none.
    pub(crate) fn set_settled(&self, pair: &Pair, settled: SettledDiff) {
        self.memory().update(pair, |memory| memory.settled = settled);
    }

    /// The source of a pair has left the lists, or what that means was found out.
    pub(crate) fn set_unlisted(&self, pair: &Pair, unlisted: bool) {
        self.memory().update(pair, |memory| memory.unlisted = unlisted);
    }

    /// For how long a pair has waited for the end of something; with `waits` unset it does no more.
    pub(crate) fn waited(&self, pair: &Pair, waits: bool) -> Duration {
        let now = Instant::now();
        self.memory().update(pair, |memory| memory.waited(waits, now))
    }

    /// Takes note of how a pair stands; `true` if that is news.
    pub(crate) fn set_condition(&self, pair: &Pair, condition: Option<PairCondition>) -> bool {
        self.memory().update(pair, |memory| memory.set_condition(condition))
    }

    /// So many of the pairs that are not in step, and why.
    pub(crate) fn conditions(&self, most: usize) -> Vec<(Pair, PairCondition)> {
        let memory = self.memory();
        let conditions = memory.conditions().take(most);
        conditions.map(|(pair, condition)| (pair.clone(), condition.clone())).collect()
    }

    /// The first pair in one of these states, and why.
    pub(crate) fn first_in(&self, states: &[PairState]) -> Option<(Pair, PairCondition)> {
        let memory = self.memory();
        let found = memory.conditions().find(|(_, condition)| states.contains(&condition.state));
        found.map(|(pair, condition)| (pair.clone(), condition.clone()))
    }

    /// How the pairs of a kind stand that are not in step: how many in which state, and of how many of them
    /// there is a source.
    pub(crate) fn count_states(&self, kind: usize) -> (BTreeMap<&'static str, usize>, usize) {
        let (mut states, mut pairs) = (BTreeMap::new(), Vec::new());
        for (pair, condition) in self.memory().conditions().filter(|(pair, _)| pair.kind == kind) {
            *states.entry(condition.state.as_str()).or_default() += 1;
            pairs.push(pair.clone());
        }
        let sources = pairs.iter().filter(|pair| self.has_source(pair)).count();
        (states, sources)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }
}

/// The number of the session that a cluster has, or why it has none.
fn session(cluster: &Arc<ClusterClient>) -> Result<u64, String> {
    cluster.session().map(|session| session.number).map_err(|error| {
        match cluster.connection.health().error {
            Some(detail) => format!("{error}: {detail}"),
            None => error.to_string(),
        }
    })
}

const LISTED: &str = "its objects are being listed";
