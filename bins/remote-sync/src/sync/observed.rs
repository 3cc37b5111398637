//! The input of each decision: all that is known of a pair, and of the attempt to bring it in step.

use crate::{
    model::{
        annotations::Uid,
        mode::Mode,
        object::{Cached, ObjectState, SourceObject, TargetNamespace, TargetObject, TargetSecret},
    },
    settings::OrphanPolicy,
    sync::orphan::OrphanVerdict,
};

/// All that is known of a pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Observed {
    pub(crate) source: Option<Cached<SourceObject>>,
    pub(crate) target: Option<Cached<TargetObject>>,
    /// The target's.
    pub(crate) namespace: Option<Cached<TargetNamespace>>,
    /// Whether it holds objects of other pairs too.
    pub(crate) namespace_shared: bool,
    /// The Secrets in it, in the order of their names in the settings.
    pub(crate) uploads: Vec<Option<Cached<TargetSecret>>>,
    pub(crate) settled: SettledDiff,
    /// The source has just left the lists, which need not be its end.
    pub(crate) unlisted: bool,
    /// The name of the target.
    pub(crate) name: String,
    /// Stands for the source's namespace and name and this instance in a [`CopyOf`](crate::model::object::CopyOf).
    pub(crate) place: u64,
    /// The cluster of the source, where that is known.
    pub(crate) source_cluster: Option<Uid>,
    pub(crate) target_cluster: Option<Uid>,
    /// People said that the source's cluster stands in for another one now.
    pub(crate) accepted: bool,
}

/// Differences that stay although they were written: a server that prunes, fills in or changes what it is
/// sent. As digests of source and target; the next change of either ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SettledDiff {
    pub(crate) content: Option<(u64, u64)>,
    pub(crate) metadata: Option<(u64, u64)>,
    pub(crate) status: Option<(u64, u64)>,
}

impl SettledDiff {
    /// After the target was written from this state of the source, and became this: what differs now,
    /// differs for good.
    pub(crate) fn after_update(&mut self, source: &ObjectState, target: &ObjectState) {
        self.content = differing(source.content, target.content);
        self.metadata = differing(source.metadata, target.metadata);
    }

    /// The same after the source's status was written from this state of the target.
    pub(crate) fn after_upload(&mut self, source: &ObjectState, target: &ObjectState) {
        self.status = differing(source.status, target.status);
    }
}

fn differing(source: u64, target: u64) -> Option<(u64, u64)> {
    (source != target).then_some((source, target))
}

/// What holds for all pairs of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SyncRules {
    pub(crate) mode: Mode,
    pub(crate) orphans: OrphanPolicy,
    pub(crate) namespaced: bool,
    /// Whether the source has a status of its own.
    pub(crate) status: bool,
    /// Whether there may be sources that are not followed.
    pub(crate) selective: bool,
}

/// What was done and found out in this pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) claimed: bool,
    /// Something was written.
    pub(crate) wrote: bool,
    /// Upstream uploads nothing any more in a pass that began with the spec.
    pub(crate) spec_begun: bool,
    /// Secrets that were uploaded, or could not be.
    pub(crate) tried: Vec<usize>,
    /// A live read said that the source does not exist.
    pub(crate) source_gone: bool,
    /// A live read found the source, and that it is not among those that are followed.
    pub(crate) unselected: Option<Cached<SourceObject>>,
    /// A live read said that the target does not exist.
    pub(crate) target_gone: bool,
    /// On an orphan.
    pub(crate) verdict: Option<OrphanVerdict>,
}

/// Whose the target is, by its own word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    Ours,
    Unmarked,
    Foreign,
}

impl Observed {
    /// Whether people stopped all work on it.
    pub(crate) fn paused(&self) -> bool {
        let source = self.source.as_ref().is_some_and(|source| source.value.state.paused);
        source || self.target.as_ref().is_some_and(|target| target.value.state.paused)
    }

    pub(crate) fn ownership(&self, rules: &SyncRules) -> Ownership {
        let copy = self.target.as_ref().and_then(|target| target.value.copy_of.as_ref());
        let Some(copy) = copy.filter(|_| rules.mode.marks()) else {
            return Ownership::Unmarked;
        };
        let is_this = self.source.as_ref().is_some_and(|source| source.uid == copy.uid);
        let same_cluster = self.source_cluster == Some(copy.cluster)
            // Another cluster took its place, and people know.
            || self.accepted && self.source.is_some();
        if is_this || copy.place == self.place && same_cluster {
            Ownership::Ours
        } else {
            Ownership::Foreign
        }
    }

    /// Whether the target's namespace was made for this pair and goes with it; `made_for` is the source.
    pub(crate) fn owns_namespace(&self, made_for: Option<Uid>, rules: &SyncRules) -> bool {
        let Some(namespace) = self.namespace.as_ref().map(|namespace| &namespace.value) else {
            return false;
        };
        let named = namespace.owner.as_deref() == Some(&*self.name);
        let alone =
            namespace.owner_uid.is_none_or(|uid| Some(uid) == made_for) && !self.namespace_shared;
        named && (alone || rules.mode.owns_by_name())
    }
}
