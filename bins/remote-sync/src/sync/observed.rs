//! Input of the decisions: the observed state of a pair, the current attempt, and the rules of the kind. Pure.

use std::sync::Arc;

use apiclient::discovery::ApiResource;

use crate::{
    model::{
        annotations::Uid,
        digest,
        known_clusters::ClusterIdentity,
        object::{Cached, SourceObject, TargetObject},
    },
    settings::Settings,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Observed {
    pub(crate) source: Option<Cached<SourceObject>>,
    pub(crate) target: Option<Cached<TargetObject>>,
    /// The controllers of Secrets in it that are not known to be uploaded, in the order of `-target-secret-name`.
    pub(crate) uploads: Vec<Option<Uid>>,
    /// Digests of what was last written to the target, and of what its server made of it: where they differ, that
    /// server prunes, defaults or mutates objects. The next change of either counts again.
    pub(crate) updated: Option<(u64, u64)>,
    /// The same of the last status that was written to the source.
    pub(crate) uploaded: Option<(u64, u64)>,
    /// The `place` of this pair's [`CopyOf`](crate::model::object::CopyOf).
    pub(crate) place: u64,
    pub(crate) source_cluster: Arc<ClusterIdentity>,
    pub(crate) target_cluster: Option<Uid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SyncRules {
    /// A source in use carries our finalizer, and annotations that say what of it was copied (`-track source`).
    pub(crate) marks_sources: bool,
    pub(crate) keeps_orphans: bool,
    /// Any unmarked target may become a copy, not only one with the source's content.
    pub(crate) adopts_any: bool,
    /// Targets have a namespace that is created for them.
    pub(crate) creates_namespaces: bool,
    /// It goes with the last of them.
    pub(crate) deletes_namespaces: bool,
    /// Whether the source has a `status` subresource.
    pub(crate) status: bool,
}

impl SyncRules {
    pub(crate) fn new(settings: &Settings, source: &ApiResource) -> Self {
        let creates_namespaces = source.namespaced && settings.mapping.target_namespace.is_none();
        Self {
            marks_sources: settings.marks_sources,
            keeps_orphans: settings.orphans.grace.is_none(),
            adopts_any: settings.adopts_any,
            creates_namespaces,
            deletes_namespaces: creates_namespaces && settings.deletes_namespaces,
            status: source.status,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    /// Secrets that were compared with what the source's cluster has of them, or uploaded.
    pub(crate) secrets_tried: Vec<usize>,
    /// A live read confirmed that the other object does not exist, while this was observed.
    pub(crate) gone: Option<Subjects>,
    /// The target's namespace was created.
    pub(crate) namespace_created: bool,
    /// The target's namespace was deleted, or has to stay.
    pub(crate) namespace_done: bool,
    /// The digest of what was written to the target, and in words what its server did not keep of it.
    pub(crate) altered: Option<(u64, String)>,
    /// The status must not be uploaded again: its subresource is gone, or the upload has to wait.
    pub(crate) status_tried: bool,
}

impl Attempt {
    /// Forgets a proof once it is about something else: a source that came and is in no list again needs a new one.
    pub(crate) fn check_proof(&mut self, observed: &Observed) {
        self.gone = self.gone.filter(|subjects| *subjects == observed.subjects());
    }
}

/// The source and whether it is terminating, and the target.
pub(crate) type Subjects = (Option<(Uid, bool)>, Option<Uid>);

/// Whose copy the target is, by its own annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    Ours,
    /// There is no target, or nobody's copy.
    Unmarked,
    /// The mark names the remote and the source's place, but nothing proves that it is of this very cluster.
    Unproven,
    Foreign,
}

impl Observed {
    /// Returns whether a person paused the pair.
    pub(crate) fn paused(&self) -> bool {
        let source = self.source.as_ref().is_some_and(|source| source.value.state.paused);
        source || self.target.as_ref().is_some_and(|target| target.value.state.paused)
    }

    /// Whose copy the target is. An object uid alone proves nothing, since each server assigns its own.
    pub(crate) fn ownership(&self) -> Ownership {
        let copy = self.target.as_ref().and_then(|target| target.value.copy_of.as_ref());
        let Some(copy) = copy else { return Ownership::Unmarked };
        let (cluster, here) = (&self.source_cluster, copy.place == self.place);
        let of_this = self.source.as_ref().is_some_and(|source| source.uid == copy.uid);
        // A source whose label changed comes from another instance, with another place.
        let verified = copy.cluster == cluster.current && cluster.record.uid.is_some();
        // A person said that the clusters are the same, but not that the new one has all sources.
        let replaced = cluster.former.contains(&copy.cluster) && self.source.is_some();
        let unproven = cluster.unproven.contains(&copy.cluster);
        if verified && (here || of_this) || replaced && here || unproven && of_this {
            Ownership::Ours
        } else if unproven && here {
            Ownership::Unproven
        } else {
            Ownership::Foreign
        }
    }

    /// Returns whether the target's mark names the source's present cluster, place and instance. The source proves
    /// that it is its copy; without the source, nothing would.
    pub(crate) fn is_marked(&self) -> bool {
        let copy = self.target.as_ref().and_then(|target| target.value.copy_of.as_ref());
        let now = (self.source_cluster.current, self.place);
        copy.is_some_and(|copy| (copy.cluster, copy.place) == now)
    }

    /// Returns whether an unmarked target may become the source's copy. The source's claims prove nothing: whoever may
    /// write the source writes its annotations and finalizers. Equal content is proof, unless both have none. With a
    /// source that is being deleted, the target is taken only to be deleted, too: not where the source names another
    /// object as its copy.
    pub(crate) fn may_adopt(&self, rules: &SyncRules) -> bool {
        let (Some(source), Some(target)) = (&self.source, &self.target) else { return false };
        let (from, to) = (&source.value.state, &target.value.state);
        let is_equal = from.content == to.content && from.content != digest::NOTHING;
        let is_another = source.value.generations.uid.is_some_and(|uid| uid != target.uid);
        rules.adopts_any && !from.terminating || is_equal && !(from.terminating && is_another)
    }

    /// What a proof that one of the objects is gone is about.
    pub(crate) fn subjects(&self) -> Subjects {
        let source = self.source.as_ref();
        let source = source.map(|source| (source.uid, source.value.state.terminating));
        (source, self.target.as_ref().map(|target| target.uid))
    }
}
