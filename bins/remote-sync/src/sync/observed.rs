//! Input of decisions: the observed state of a pair, the current attempt, and the rules of the kind. Pure.

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
    /// By index in `-target-secret-name`, the controller of a Secret that is not known to be uploaded.
    pub(crate) uploads: Vec<Option<Uid>>,
    /// Digests of the last write to the target, and of the result. If they differ, the target's server prunes, defaults
    /// or mutates objects: only a later change of either side counts as a difference.
    pub(crate) updated: Option<(u64, u64)>,
    /// Likewise for the last status written to the source.
    pub(crate) uploaded: Option<(u64, u64)>,
    /// The `place` of this pair's [`CopyOf`](crate::model::object::CopyOf).
    pub(crate) place: u64,
    pub(crate) source_cluster: Arc<ClusterIdentity>,
    pub(crate) target_cluster: Option<Uid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SyncRules {
    /// A source in use carries our finalizer, and annotations about what was copied (`-track source`).
    pub(crate) marks_sources: bool,
    pub(crate) keeps_orphans: bool,
    /// Any unmarked target may be adopted, not only one with the source's content.
    pub(crate) adopts_any: bool,
    /// Targets are in namespaces that are created for them.
    pub(crate) creates_namespaces: bool,
    /// These namespaces are deleted with their last target.
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
    /// Indices of Secrets that were uploaded, or compared with the source's cluster.
    pub(crate) secrets_tried: Vec<usize>,
    /// What was observed when a live read confirmed that the other object does not exist.
    pub(crate) gone: Option<Subjects>,
    /// The target's namespace was created.
    pub(crate) namespace_created: bool,
    /// The target's namespace was deleted, or must stay.
    pub(crate) namespace_done: bool,
    /// Digest of what was written to the target, and a sentence about what its server did not keep.
    pub(crate) altered: Option<(u64, String)>,
    /// The status must not be uploaded again: its subresource is missing, or the upload must wait.
    pub(crate) status_tried: bool,
}

impl Attempt {
    /// Drops a proof about other objects: if a source appears and disappears again, it needs a new proof.
    pub(crate) fn check_proof(&mut self, observed: &Observed) {
        self.gone = self.gone.filter(|subjects| *subjects == observed.subjects());
    }
}

/// Uid of the source and whether it is terminating; uid of the target.
pub(crate) type Subjects = (Option<(Uid, bool)>, Option<Uid>);

/// Whose copy the target is, according to its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    Ours,
    /// There is no target, or it has no valid mark.
    Unmarked,
    /// The mark names the remote and the source's place, but does not prove that the cluster is the same.
    Unproven,
    Foreign,
}

impl Observed {
    /// Returns whether a person paused the pair.
    pub(crate) fn paused(&self) -> bool {
        let source = self.source.as_ref().is_some_and(|source| source.value.state.paused);
        source || self.target.as_ref().is_some_and(|target| target.value.state.paused)
    }

    /// Whose copy the target is. A uid alone proves nothing: each server assigns its own.
    pub(crate) fn ownership(&self) -> Ownership {
        let copy = self.target.as_ref().and_then(|target| target.value.copy_of.as_ref());
        let Some(copy) = copy else { return Ownership::Unmarked };
        let (cluster, here) = (&self.source_cluster, copy.place == self.place);
        let of_this = self.source.as_ref().is_some_and(|source| source.uid == copy.uid);
        // Another instance, with another finalizer and so another place, may have copied this source.
        let verified = copy.cluster == cluster.current && cluster.record.uid.is_some();
        // A person confirmed that the cluster was replaced, but not that the new one has all sources.
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

    /// Returns whether the target's mark names the source's present cluster, place and instance. An outdated mark must
    /// be updated while the source exists: without it, that mark would prove nothing.
    pub(crate) fn is_marked(&self) -> bool {
        let copy = self.target.as_ref().and_then(|target| target.value.copy_of.as_ref());
        let now = (self.source_cluster.current, self.place);
        copy.is_some_and(|copy| (copy.cluster, copy.place) == now)
    }

    /// Returns whether an unmarked target may become the source's copy. The source's annotations and finalizers prove
    /// nothing: whoever may write the source may write them. Equal content is proof, unless it is empty. A target of a
    /// terminating source would be adopted only to be deleted: not if the source records another object as its copy.
    pub(crate) fn may_adopt(&self, rules: &SyncRules) -> bool {
        let (Some(source), Some(target)) = (&self.source, &self.target) else { return false };
        let (from, to) = (&source.value.state, &target.value.state);
        let is_equal = from.content == to.content && from.content != digest::NOTHING;
        let is_another = source.value.generations.uid.is_some_and(|uid| uid != target.uid);
        rules.adopts_any && !from.terminating || is_equal && !(from.terminating && is_another)
    }

    /// The objects that a proof of absence is about.
    pub(crate) fn subjects(&self) -> Subjects {
        let source = self.source.as_ref();
        let source = source.map(|source| (source.uid, source.value.state.terminating));
        (source, self.target.as_ref().map(|target| target.uid))
    }
}
