//! The rule: the program's `next_action` and `DeletionLimit`, with objects of the model.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    MOST,
    view::{Records, Shown, Source, Target, View},
    world::AB,
};
use crate::{
    model::{
        annotations::Uid,
        key::Pair,
        known_clusters::{ClusterIdentity, ClusterRecord, KnownClusters},
        object::{
            Cached, CopyOf, Finalizers, Generations, ObjectState, SourceObject, TargetObject,
        },
    },
    settings::OrphanSettings,
    sync::{
        decide::{SyncAction, next_action},
        deletion_limit::DeletionLimit,
        observed::{Attempt, Observed, Subjects, SyncRules},
        status::Reason,
    },
};

/// Longer than any path through the model.
const WITHIN: Duration = Duration::from_secs(3600);

/// The program's rule at one point in time, perhaps without a safeguard.
pub(super) struct Rule {
    now: Instant,
    without: Option<Safeguard>,
}

/// What prevents the deletion of too much.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Safeguard {
    /// The limit that every deletion passes.
    Limit,
    /// Distinguishes clusters with the same uid: the second one is not connected, and marks name the remote.
    Identity,
    /// The read on the source's cluster that confirms its absence.
    Proof,
}

impl Rule {
    pub(super) fn new() -> Self {
        Self { now: Instant::now() + WITHIN, without: None }
    }

    /// The rule without a safeguard.
    pub(super) fn without(safeguard: Safeguard) -> Self {
        Self { without: Some(safeguard), ..Self::new() }
    }

    /// Without names, all clusters belong to one remote.
    fn seen(&self, view: &View) -> View {
        let mut view = view.clone();
        if self.without == Some(Safeguard::Identity) {
            view.cluster.remote = 0;
            let mark = view.target.as_mut().and_then(|target| target.mark.as_mut());
            mark.into_iter().for_each(|mark| mark.cluster.remote = 0);
        }
        view
    }

    /// The objects that a proof is about.
    pub(super) fn subjects(&self, view: &View) -> Subjects {
        observed(&self.seen(view)).subjects()
    }

    /// Like the beginning of each step of an attempt.
    pub(super) fn check_proof(&self, view: &View, attempt: &mut Attempt) {
        attempt.check_proof(&observed(&self.seen(view)));
    }

    pub(super) fn next(&self, view: &View, attempt: &Attempt) -> SyncAction {
        let (mut attempt, observed) = (attempt.clone(), observed(&self.seen(view)));
        if self.without == Some(Safeguard::Proof) && view.source.is_none() {
            attempt.gone = Some(observed.subjects());
        }
        next_action(&observed, &attempt, &rules(view))
    }

    /// The deletion limit of a new process.
    pub(super) fn deletions(&self) -> DeletionLimit {
        DeletionLimit::new(OrphanSettings {
            grace: Some(Duration::ZERO),
            most: MOST,
            within: WITHIN,
        })
    }

    /// Requests the deletion of a pair's target, whose source is `gone`, or is `swept` with its kind.
    pub(super) fn ask(
        &self,
        deletions: &mut DeletionLimit,
        name: usize,
        (gone, swept): (bool, bool),
    ) -> Result<(), Reason> {
        if self.without == Some(Safeguard::Limit) {
            return Ok(());
        }
        let pair = self.pair(name);
        // After a restart, a limit of one token still has one.
        deletions.wait(&pair, None, self.now)?;
        deletions.pass(&pair, swept, gone, self.now)
    }

    /// Forgets a pair's deletion, after an attempt that is not held.
    pub(super) fn forget(&self, deletions: &mut DeletionLimit, name: usize) {
        deletions.forget(&self.pair(name));
    }

    fn pair(&self, name: usize) -> Pair {
        Pair { kind: 0, key: ["team/0", "team/1"][name].into() }
    }

    /// The records after this cluster was connected; `None` if it is refused.
    pub(super) fn admit(&self, records: &Records, shown: Shown) -> Option<Records> {
        if self.without == Some(Safeguard::Identity) {
            return Some(*records);
        }
        let mut known = KnownClusters::default();
        let texts = records.map(|record| {
            let text = |uid| ClusterRecord { uid: cluster(uid), former: Vec::new() }.to_string();
            record.map(text)
        });
        let texts = texts.iter().zip(AB).filter_map(|(text, name)| Some((name, text.as_deref()?)));
        known.load(texts, 0);
        let uid = cluster(shown.uid).ok_or_else(String::new);
        let mut records = *records;
        known.admit(AB[shown.remote], &uid).ok()?;
        if !known.is_saved(AB[shown.remote]) {
            records[shown.remote] = Some(shown.uid);
        }
        Some(records)
    }
}

fn rules(view: &View) -> SyncRules {
    SyncRules {
        marks_sources: view.marks_sources,
        keeps_orphans: false,
        adopts_any: false,
        creates_namespaces: true,
        deletes_namespaces: view.deletes_namespaces,
        status: false,
    }
}

fn observed(view: &View) -> Observed {
    Observed {
        source: view.source.map(source),
        target: view.target.map(target),
        uploads: Vec::new(),
        updated: None,
        uploaded: None,
        place: place(view.name),
        source_cluster: Arc::new(ClusterIdentity {
            record: ClusterRecord { uid: cluster(view.cluster.uid), former: Vec::new() },
            current: mark(view.cluster),
            former: Vec::new(),
            unproven: vec![mark(Shown { uid: 0, ..view.cluster })],
        }),
        target_cluster: cluster(0xff),
    }
}

fn source(source: Source) -> Cached<SourceObject> {
    let published = source.published;
    let value = SourceObject {
        state: state(source.content, source.generation, source.terminating),
        finalizers: if source.finalizer { Finalizers::Ours(0) } else { Finalizers::None },
        generations: Generations {
            remote: published.map(|published| published.remote.into()),
            local: published.map(|published| published.local.into()),
            uid: published.and_then(|published| published.uid).map(object),
        },
        copied_from: None,
    };
    Cached { version: version(&source), ..cached(source.uid, value) }
}

fn target(target: Target) -> Cached<TargetObject> {
    let version = version(&target);
    let copy_of = target.mark.map(|mark| CopyOf {
        cluster: self::mark(mark.cluster),
        uid: object(mark.uid),
        place: place(mark.name),
    });
    let state = state(target.content, target.generation, false);
    Cached { version, ..cached(target.uid, TargetObject { state, copy_of }) }
}

fn state(content: u8, generation: u8, terminating: bool) -> ObjectState {
    let (generation, content) = (generation.into(), content.into());
    ObjectState { generation, content, metadata: 0, status: 0, terminating, paused: false }
}

fn cached<T>(uid: u8, value: T) -> Cached<T> {
    Cached { uid: object(uid), version: 1, large: false, value }
}

/// A version for each state.
fn version(object: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    object.hash(&mut hasher);
    hasher.finish()
}

fn place(name: usize) -> u64 {
    70 + name as u64
}

fn mark(cluster: Shown) -> u64 {
    300 + 256 * cluster.remote as u64 + u64::from(cluster.uid)
}

fn object(uid: u8) -> Uid {
    Uid::parse(&format!("00000000-0000-0000-0000-0000000000{uid:02x}")).unwrap()
}

/// The uid of a cluster; `None` if it cannot be read.
fn cluster(uid: u8) -> Option<Uid> {
    Uid::parse(&format!("00000000-0000-0000-0001-0000000000{uid:02x}")).filter(|_| uid > 0)
}
