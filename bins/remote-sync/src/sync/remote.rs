//! The pairs of one remote: where both sides are, and what is known of each pair beside its objects.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use shared::{lock::lock, logging::printable, stop::Stop};

use crate::{
    cache::cluster::{Cluster, SourceSite, TargetSite},
    connection::Identity,
    model::{
        annotations::Uid,
        discovery::Kind,
        key::{self, Pair},
        mapping::Names,
        mode::Mode,
        object::Reader,
    },
    settings::{Direction, Settings},
    sync::{
        observed::{Rules, Settled, View},
        orphan::Orphans,
        workqueue::Queue,
    },
};

/// A namespace waits this long for the lists that say what else is in it; then it stays.
const UNLISTED_FOR_LONG: Duration = Duration::from_secs(60);
/// Letters of the reason in a [`Note`], of which there may be as many as objects.
const LONGEST_REASON: usize = 200;

/// Everything between the own cluster and one remote.
pub(crate) struct Route {
    /// The remote's name.
    pub(crate) name: String,
    pub(crate) names: Names,
    pub(crate) source: Arc<SourceSite>,
    pub(crate) target: Arc<TargetSite>,
    pub(crate) queue: Queue,
    pub(crate) orphans: Mutex<Orphans>,
    /// Nothing but its namespace would tell the target of this remote from that of another one.
    needs_namespace: bool,
    /// Raised when the remote goes.
    pub(crate) stop: Stop,
    /// The cluster of the sources that all targets were looked at for.
    looked: Mutex<Option<Uid>>,
    /// Of the source's cluster, as last seen.
    session: Mutex<u64>,
    /// Pairs whose source has just left the lists.
    left: Mutex<BTreeSet<Pair>>,
    settled: Mutex<HashMap<Pair, Settled>>,
    /// Of pairs that are not in step.
    notes: Mutex<HashMap<Pair, Note>>,
    /// Since when pairs wait for the end of something.
    waiting: Mutex<HashMap<Pair, Instant>>,
}

/// Why a pair is not in step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// In one word.
    pub(crate) state: &'static str,
    pub(crate) reason: String,
}

impl Note {
    /// `reason` may be what a server says.
    pub(crate) fn new(state: &'static str, reason: &str) -> Self {
        Self { state, reason: printable(reason, LONGEST_REASON) }
    }
}

/// The kind of a pair as both clusters have it.
#[derive(Clone)]
pub(crate) struct Kinds {
    pub(crate) source: Arc<Kind>,
    pub(crate) target: Arc<Kind>,
}

impl Route {
    pub(crate) fn new(
        name: &str,
        settings: &Settings,
        source: Arc<SourceSite>,
        target: Arc<TargetSite>,
        stop: Stop,
    ) -> Self {
        let orphans = &settings.orphans;
        let most = (usize::try_from(orphans.most).unwrap_or(usize::MAX), orphans.within);
        let pulls = settings.mode == Mode::Compat && settings.direction == Direction::Pull;
        Self {
            name: name.to_owned(),
            names: settings.mapping.names(name),
            source,
            target,
            queue: Queue::new(settings.resources.len(), settings.workers, settings.mode),
            orphans: Mutex::new(Orphans::new(orphans.grace, most)),
            needs_namespace: pulls && settings.many(),
            stop,
            looked: Mutex::default(),
            session: Mutex::default(),
            left: Mutex::default(),
            settled: Mutex::default(),
            notes: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// Both clusters.
    pub(crate) fn clusters(&self) -> [&Arc<Cluster>; 2] {
        [&self.source.cluster, &self.target.cluster]
    }

    /// Opens the queue for the kinds whose pairs can be worked on, and closes it for the others.
    pub(crate) fn gate(&self) {
        if let Ok(session) = self.source.cluster.session()
            && mem::replace(&mut *lock(&self.session), session.number) != session.number
        {
            // What was not there before the outage may be there after it: the grace begins anew.
            lock(&self.orphans).clear();
        }
        for kind in 0..self.source.shelves.len() {
            self.queue.open(kind, self.obstacle(kind).is_none());
        }
    }

    /// Whether it is news which cluster the sources are on: before that no target is known to be an orphan.
    pub(crate) fn is_identified(&self) -> bool {
        let now = self.source.cluster.uid();
        now.is_some() && mem::replace(&mut *lock(&self.looked), now) != now
    }

    /// Why the pairs of this kind cannot be worked on at present, if they cannot.
    pub(crate) fn obstacle(&self, kind: usize) -> Option<String> {
        let (from, to) = match self.clusters().map(session) {
            [Ok(from), Ok(to)] => (from, to),
            [Err(why), _] | [_, Err(why)] => return Some(why),
        };
        let (source, target) = (&self.source.shelves[kind], &self.target.shelves[kind]);
        let namespaces = self.target.namespaces.trouble();
        let secrets = self.target.secrets.iter().find_map(|secrets| secrets.trouble());
        let Some(kinds) = self.kinds(kind) else {
            return Some(
                source.trouble().or_else(|| target.trouble()).unwrap_or_else(|| LISTED.into()),
            );
        };
        if kinds.source.namespaced != kinds.target.namespaced {
            let kind = &kinds.source.resource.kind;
            return Some(format!("{kind} is in namespaces on one side and not on the other"));
        }
        let versions = [&kinds.source, &kinds.target].map(|kind| &kind.resource.version);
        if versions[0] != versions[1] {
            return Some(format!(
                "the source is of version {} and the target of {}",
                versions[0], versions[1]
            ));
        }
        if self.needs_namespace && !kinds.source.namespaced {
            let kind = &kinds.source.resource.kind;
            return Some(format!(
                "{kind} is in no namespace, so several remotes would share its objects"
            ));
        }
        let complete = source.table.is_complete(from)
            && target.table.is_complete(to)
            && self.target.is_complete(kinds.source.namespaced, to);
        let trouble = || source.trouble().or_else(|| target.trouble()).or(namespaces).or(secrets);
        (!complete).then(|| trouble().unwrap_or_else(|| LISTED.into()))
    }

    /// Why changes of this kind may go unseen at present, as where a right is lost.
    pub(crate) fn trouble(&self, kind: usize) -> Option<String> {
        let (source, target) = (&self.source.shelves[kind], &self.target.shelves[kind]);
        let beside = || self.target.secrets.iter().find_map(|secrets| secrets.trouble());
        let trouble = source.trouble().or_else(|| target.trouble());
        trouble.or_else(|| self.target.namespaces.trouble()).or_else(beside)
    }

    /// The kind as both clusters have it, once they do.
    pub(crate) fn kinds(&self, kind: usize) -> Option<Kinds> {
        let source = self.source.shelves[kind].kind()?;
        Some(Kinds { source, target: self.target.shelves[kind].kind()? })
    }

    pub(crate) fn rules(&self, kinds: &Kinds, settings: &Settings) -> Rules {
        Rules {
            mode: settings.mode,
            orphans: settings.orphans.policy,
            namespaced: kinds.source.namespaced,
            status: kinds.source.status,
            selective: settings.is_selective(),
        }
    }

    /// All that is known of a pair.
    pub(crate) fn view(&self, pair: &Pair, settings: &Settings, reader: &Reader) -> View {
        let (namespace, name) = key::split(&pair.key);
        let (source_namespace, source_name) = self.names.source(namespace, name);
        let (target_namespace, target_name) = self.names.target(namespace, name);
        let source = &self.source.shelves[pair.kind].table;
        let target = &self.target.shelves[pair.kind].table;
        let namespaces = &self.target.namespaces.table;
        let found = namespaces.get(&key::of("", &target_namespace));
        let source = source.get(&key::of(&source_namespace, &source_name));
        // Only of interest where it may be deleted.
        let ends = source.as_ref().is_none_or(|source| source.row.state.terminating);
        let owned = ends && found.as_ref().is_some_and(|found| found.row.owner.is_some());
        View {
            source,
            target: target.get(&key::of(&target_namespace, &target_name)),
            namespace: found,
            namespace_shared: owned && self.is_shared(pair, namespace, &target_namespace),
            uploads: self
                .target
                .secrets
                .iter()
                .zip(&settings.secrets)
                .map(|(secrets, secret)| secrets.table.get(&key::of(&target_namespace, secret)))
                .collect(),
            settled: self.settled(pair),
            left: lock(&self.left).contains(pair),
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
        self.source.shelves[pair.kind].table.has(&key::of(&namespace, &name))
    }

    /// Whether all that is in this table was listed in the sessions that there are now.
    pub(crate) fn is_all_known(&self) -> bool {
        let [Ok(from), Ok(to)] = self.clusters().map(session) else { return false };
        self.source.shelves.iter().all(|shelf| shelf.table.is_complete(from))
            && self.target.shelves.iter().all(|shelf| shelf.table.is_complete(to))
    }

    /// Whether other pairs have, or will have, an object in the target's namespace: also where that has not
    /// been known for long, as of a kind that cannot be listed.
    fn is_shared(&self, pair: &Pair, namespace: &str, target_namespace: &str) -> bool {
        let waited = lock(&self.waiting).get(pair).map(Instant::elapsed);
        if waited.is_some_and(|waited| waited >= UNLISTED_FOR_LONG) && !self.is_all_known() {
            return true;
        }
        let (_, own) = key::split(&pair.key);
        let sources = self.source.shelves.iter().enumerate().any(|(kind, shelf)| {
            shelf.table.has_others(namespace, |name| {
                let name = self.names.canonical_of_source(namespace, name).map(|(_, name)| name);
                name.is_some_and(|name| kind != pair.kind || name != own)
            })
        });
        sources
            || self.target.shelves.iter().enumerate().any(|(kind, shelf)| {
                let table = &shelf.table;
                table.has_others(target_namespace, |name| kind != pair.kind || name != own)
            })
    }

    fn is_accepted(&self, settings: &Settings) -> bool {
        let Identity::Known(uid) = self.source.cluster.connection.identity() else {
            return false;
        };
        settings.accepted(&self.name).any(|accepted| accepted == uid)
    }

    pub(crate) fn settled(&self, pair: &Pair) -> Settled {
        lock(&self.settled).get(pair).copied().unwrap_or_default()
    }

    /// Remembers a difference that stays; forgets the pair where there is none.
    pub(crate) fn settle(&self, pair: &Pair, settled: Settled) {
        let mut all = lock(&self.settled);
        if settled == Settled::default() {
            all.remove(pair);
        } else {
            all.insert(pair.clone(), settled);
        }
    }

    /// The source of a pair has left the lists, or what that means was found out.
    pub(crate) fn leaves(&self, pair: &Pair, left: bool) {
        let mut all = lock(&self.left);
        if left {
            all.insert(pair.clone());
        } else {
            all.remove(pair);
        }
    }

    /// For how long a pair has waited for the end of something; with `waits` unset it does no more.
    pub(crate) fn waited(&self, pair: &Pair, waits: bool) -> Duration {
        let mut waiting = lock(&self.waiting);
        if !waits {
            waiting.remove(pair);
            return Duration::ZERO;
        }
        waiting.entry(pair.clone()).or_insert_with(Instant::now).elapsed()
    }

    /// Takes note of how a pair stands; `true` if that is news.
    pub(crate) fn note(&self, pair: &Pair, note: Option<Note>) -> bool {
        let mut notes = lock(&self.notes);
        match note {
            None => notes.remove(pair).is_some(),
            Some(note) => {
                let news = notes.get(pair) != Some(&note);
                notes.insert(pair.clone(), note);
                news
            }
        }
    }

    /// So many of the pairs that are not in step, and why.
    pub(crate) fn notes(&self, most: usize) -> Vec<(Pair, Note)> {
        let (notes, mut pairs) = (lock(&self.notes), BTreeSet::new());
        for pair in notes.keys() {
            pairs.insert(pair.clone());
        }
        let noted = |pair: Pair| notes.get(&pair).cloned().map(|note| (pair, note));
        pairs.into_iter().take(most).filter_map(noted).collect()
    }

    /// The first pair in one of these states, and why.
    pub(crate) fn first_in(&self, states: &[&str]) -> Option<(Pair, Note)> {
        let notes = lock(&self.notes);
        let found = notes.iter().filter(|(_, note)| states.contains(&note.state));
        found.min_by_key(|(pair, _)| *pair).map(|(pair, note)| (pair.clone(), note.clone()))
    }

    /// How the pairs of a kind stand that are not in step: how many in which state, and of how many of them
    /// there is a source.
    pub(crate) fn apart(&self, kind: usize) -> (BTreeMap<&'static str, usize>, usize) {
        let notes = lock(&self.notes);
        let (mut states, mut sources) = (BTreeMap::new(), 0);
        for (pair, note) in notes.iter().filter(|(pair, _)| pair.kind == kind) {
            *states.entry(note.state).or_default() += 1;
            sources += usize::from(self.has_source(pair));
        }
        (states, sources)
    }
}

/// The number of the session that a cluster has, or why it has none.
fn session(cluster: &Arc<Cluster>) -> Result<u64, String> {
    cluster.session().map(|session| session.number).map_err(|error| {
        match cluster.connection.health().error {
            Some(detail) => format!("{error}: {detail}"),
            None => error.to_string(),
        }
    })
}

const LISTED: &str = "its objects are being listed";
