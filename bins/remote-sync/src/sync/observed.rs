//! Input of the decisions: the observed state of a pair, the current attempt, and the rules of the kind. Pure.

use crate::{
    cache::cluster::ApiResources,
    model::{
        annotations::Uid,
        mode::Mode,
        object::{Cached, ObjectState, SourceObject, TargetNamespace, TargetObject, TargetSecret},
    },
    settings::{OrphanPolicy, Settings},
    sync::orphan::OrphanVerdict,
};

/// The observed state of a pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Observed {
    pub(crate) source: Option<Cached<SourceObject>>,
    pub(crate) target: Option<Cached<TargetObject>>,
    /// The target's namespace.
    pub(crate) namespace: Option<Cached<TargetNamespace>>,
    /// Whether other pairs have objects in it; only determined if it may be deleted.
    pub(crate) namespace_shared: bool,
    /// The Secrets in it, in the order of `-local-secret-name`.
    pub(crate) uploads: Vec<Option<Cached<TargetSecret>>>,
    pub(crate) settled: SettledDiff,
    /// The source has left the lists, which need not mean that it is gone.
    pub(crate) unlisted: bool,
    /// The name of the target.
    pub(crate) name: String,
    /// The `place` of this pair's [`CopyOf`](crate::model::object::CopyOf).
    pub(crate) place: u64,
    /// The uid of the source's cluster, if known.
    pub(crate) source_cluster: Option<Uid>,
    pub(crate) target_cluster: Option<Uid>,
    /// `-accept-identity` names the source's cluster.
    pub(crate) accepted: bool,
}

/// Differences that remain after a write because a server prunes, defaults or mutates objects. As digests of
/// source and target; the next change of either ends one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SettledDiff {
    pub(crate) content: Option<(u64, u64)>,
    pub(crate) metadata: Option<(u64, u64)>,
    pub(crate) status: Option<(u64, u64)>,
}

impl SettledDiff {
    /// Records what still differs after the target was written from this state of the source.
    pub(crate) fn after_update(&mut self, source: &ObjectState, target: &ObjectState) {
        self.content = differing(source.content, target.content);
        self.metadata = differing(source.metadata, target.metadata);
    }

    /// Records what still differs after the status was written to the source.
    pub(crate) fn after_upload(&mut self, source: &ObjectState, target: &ObjectState) {
        self.status = differing(source.status, target.status);
    }
}

fn differing(source: u64, target: u64) -> Option<(u64, u64)> {
    (source != target).then_some((source, target))
}

/// Rules that apply to all pairs of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SyncRules {
    pub(crate) mode: Mode,
    pub(crate) orphans: OrphanPolicy,
    /// Whether targets have a namespace that is created and deleted with them.
    pub(crate) namespaced: bool,
    /// Whether the source has a `status` subresource.
    pub(crate) status: bool,
    /// Whether some sources may not be selected.
    pub(crate) selective: bool,
}

impl SyncRules {
    pub(crate) fn new(settings: &Settings, kinds: &ApiResources) -> Self {
        Self {
            mode: settings.mode,
            orphans: settings.orphans.policy,
            namespaced: kinds.source.namespaced && settings.create_namespaces,
            status: kinds.source.status,
            selective: settings.is_selective(),
        }
    }
}

/// Progress of the current attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) finalizer_added: bool,
    /// Something was written.
    pub(crate) wrote: bool,
    /// Writes for the target have started: upstream uploads nothing more in such a pass.
    pub(crate) spec_started: bool,
    /// Secrets whose upload was tried.
    pub(crate) secrets_tried: Vec<usize>,
    /// A live read confirmed that the source does not exist.
    pub(crate) source_gone: bool,
    /// A live read found the source, which is not selected.
    pub(crate) unselected: Option<Cached<SourceObject>>,
    /// A live read confirmed that the target does not exist.
    pub(crate) target_gone: bool,
    /// For an orphan.
    pub(crate) verdict: Option<OrphanVerdict>,
}

impl Attempt {
    /// Returns whether it found out why the source had left the lists. One that leaves them after this last look at
    /// the pair is left to the next attempt: our finalizer may be on it.
    pub(crate) fn explains_absence(&self, observed: &Observed) -> bool {
        let found = observed.source.is_some() || self.source_gone || self.unselected.is_some();
        observed.unlisted && found
    }
}

/// Whose copy the target is, by its own annotation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    Ours,
    Unmarked,
    Foreign,
}

impl Observed {
    /// Returns whether a person paused the pair.
    pub(crate) fn paused(&self) -> bool {
        let source = self.source.as_ref().is_some_and(|source| source.value.state.paused);
        source || self.target.as_ref().is_some_and(|target| target.value.state.paused)
    }

    pub(crate) fn ownership(&self, rules: &SyncRules) -> Ownership {
        let copy = self.target.as_ref().and_then(|target| target.value.copy_of.as_ref());
        let Some(copy) = copy.filter(|_| rules.mode.records_origin()) else {
            return Ownership::Unmarked;
        };
        let is_this = self.source.as_ref().is_some_and(|source| source.uid == copy.uid);
        let same_cluster = self.source_cluster == Some(copy.cluster)
            // The source's cluster was rebuilt, and a person confirmed it.
            || self.accepted && self.source.is_some();
        if is_this || copy.place == self.place && same_cluster {
            Ownership::Ours
        } else {
            Ownership::Foreign
        }
    }

    /// Returns whether the target's namespace was created for this pair, of this source, and is deleted with it.
    pub(crate) fn owns_namespace(&self, source: Option<Uid>, rules: &SyncRules) -> bool {
        let Some(namespace) = self.namespace.as_ref().map(|namespace| &namespace.value) else {
            return false;
        };
        let named = namespace.owner.as_deref() == Some(&*self.name);
        let alone =
            namespace.owner_uid.is_none_or(|uid| Some(uid) == source) && !self.namespace_shared;
        named && (alone || rules.mode.owns_by_name())
    }
}
