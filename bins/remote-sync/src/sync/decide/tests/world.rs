//! A model of two clusters for one pair: the effect of an action, and what the servers do afterwards.

use std::sync::Arc;

use super::super::*;
use crate::model::{
    annotations::Uid,
    known_clusters::{ClusterIdentity, ClusterRecord},
    object::{CopyOf, Finalizers, Generations, ObjectState, SourceObject, TargetObject},
};

/// A pair and its clusters.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) observed: Observed,
    pub(super) rules: SyncRules,
    /// A source that exists but is in no list.
    pub(super) unlisted: Option<Cached<SourceObject>>,
    /// The same for a target.
    pub(super) unlisted_target: Option<Cached<TargetObject>>,
    pub(super) verdict: Result<(), Reason>,
    /// The target's namespace.
    pub(super) namespace: Option<Namespace>,
    /// Something else is in the namespace.
    pub(super) used: bool,
    /// The target's server mutates every content.
    pub(super) alters: bool,
    /// Other finalizers block the target's deletion.
    pub(super) held: bool,
    /// Secrets that the source's server rejects.
    pub(super) refused: Vec<usize>,
    made: u8,
}

/// The namespace of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Namespace {
    /// Created for targets.
    pub(super) ours: bool,
    pub(super) terminating: bool,
}

/// The final state, without anything that counts writes.
#[derive(Debug, PartialEq)]
pub(super) struct End {
    source: Option<(Finalizers, u64)>,
    /// The source's recorded generation, and whether generation and uid are this target's.
    generations: Option<(Option<u32>, bool, bool)>,
    target: Option<(u64, u64, u64)>,
    /// The cluster and the place that the target's mark names.
    mark: Option<(u64, u64)>,
    namespace: Option<Namespace>,
    uploads: Vec<Option<Uid>>,
}

pub(super) const PLACE: u64 = 70;
/// The status that the target's server gives a new object.
pub(super) const FRESH: u64 = 60;

pub(super) fn uid(last: u8) -> Uid {
    Uid::parse(&format!("00000000-0000-0000-0000-0000000000{last:02x}")).unwrap()
}

pub(super) fn known<R>(last: u8, value: R) -> Cached<R> {
    Cached { uid: uid(last), version: 1, large: false, value }
}

/// The hub.
pub(super) fn hub() -> Uid {
    uid(0xa0)
}

pub(super) fn state(content: u64, metadata: u64, status: u64) -> ObjectState {
    ObjectState { generation: 1, content, metadata, status, terminating: false, paused: false }
}

/// A new source.
pub(super) fn source(state: ObjectState) -> Cached<SourceObject> {
    let (finalizers, published) = (Finalizers::None, Generations::default());
    known(1, SourceObject { state, finalizers, generations: published, copied_from: None })
}

pub(super) fn target(state: ObjectState) -> Cached<TargetObject> {
    known(2, TargetObject { state, copy_of: None })
}

/// The source's cluster. Its marks are 0xa0, or 0xb0 while it is unverified; 0xa5 of a cluster that it replaced, if
/// `accepted`; 0xb1 of earlier versions.
pub(super) fn cluster(verified: bool, accepted: bool) -> Arc<ClusterIdentity> {
    let record = ClusterRecord { uid: verified.then(hub), former: Vec::new() };
    let current = if verified { 0xa0 } else { 0xb0 };
    let former = if accepted { vec![0xa5] } else { Vec::new() };
    let unproven = if verified { vec![0xb0, 0xb1] } else { vec![0xb0] };
    Arc::new(ClusterIdentity { record, current, former, unproven })
}

/// The origin annotation of a copy of our source.
pub(super) fn copy() -> CopyOf {
    CopyOf { cluster: 0xa0, uid: uid(1), place: PLACE }
}

pub(super) fn rules() -> SyncRules {
    SyncRules {
        marks_sources: true,
        keeps_orphans: false,
        adopts_any: false,
        creates_namespaces: true,
        deletes_namespaces: true,
        status: true,
    }
}

impl World {
    /// An empty namespace that others created.
    pub(super) fn new() -> Self {
        let observed = Observed {
            source: None,
            target: None,
            uploads: Vec::new(),
            updated: None,
            uploaded: None,
            place: PLACE,
            source_cluster: cluster(true, false),
            target_cluster: Some(uid(0xa1)),
        };
        Self {
            observed,
            rules: rules(),
            unlisted: None,
            unlisted_target: None,
            verdict: Ok(()),
            namespace: Some(Namespace::default()),
            used: false,
            alters: false,
            held: false,
            refused: Vec::new(),
            made: 0x10,
        }
    }

    pub(super) fn source(&mut self) -> &mut SourceObject {
        &mut self.observed.source.as_mut().unwrap().value
    }

    pub(super) fn target(&mut self) -> &mut TargetObject {
        &mut self.observed.target.as_mut().unwrap().value
    }

    /// Runs one attempt; returns its actions, at most `most`, and the pair's status.
    pub(super) fn attempt(&mut self, most: usize) -> (Vec<SyncAction>, Option<Option<Reason>>) {
        let (mut attempt, mut steps) = (Attempt::default(), Vec::new());
        while steps.len() < most {
            attempt.check_proof(&self.observed);
            let action = next_action(&self.observed, &attempt, &self.rules);
            if let SyncAction::Done(status) = action {
                return (steps, Some(status));
            }
            super::random::allowed(self, &attempt, action, &steps);
            steps.push(action);
            if let Some(status) = self.perform(action, &mut attempt) {
                return (steps, Some(status));
            }
            assert!(steps.len() < 24, "{steps:?}\n{self:?}");
        }
        (steps, None)
    }

    /// Runs attempts until nothing changes, with the servers' actions in between.
    pub(super) fn run(&mut self) -> Vec<Vec<SyncAction>> {
        let mut passes = Vec::new();
        loop {
            let before = self.clone();
            let (steps, _) = self.attempt(usize::MAX);
            self.go_on();
            if self.is_as(&before) {
                return passes;
            }
            if steps.iter().any(|action| action.writes()) {
                passes.push(steps);
            }
            assert!(passes.len() < 12, "{passes:?}\n{self:?}");
        }
    }

    /// Returns whether nothing has changed since `before`, neither on a cluster nor in memory.
    fn is_as(&self, before: &Self) -> bool {
        let all = |world: &Self| {
            let unlisted = (world.unlisted.is_some(), world.unlisted_target.is_some());
            (world.end(), world.observed.updated, world.observed.uploaded, unlisted)
        };
        all(self) == all(before)
    }

    pub(super) fn end(&self) -> End {
        let observed = &self.observed;
        let (from, to) = (observed.source.as_ref(), observed.target.as_ref());
        End {
            source: from.map(|source| (source.value.finalizers, source.value.state.status)),
            generations: from.zip(to).map(|(source, target)| {
                let published = &source.value.generations;
                let generation = published.local == Some(target.value.state.generation);
                (published.remote, generation, published.uid == Some(target.uid))
            }),
            target: to.map(|target| {
                let state = &target.value.state;
                (state.content, state.metadata, state.status)
            }),
            mark: to
                .and_then(|target| target.value.copy_of.as_ref())
                .map(|copy| (copy.cluster, copy.place)),
            namespace: self.namespace,
            uploads: observed.uploads.clone(),
        }
    }

    /// The servers' own actions: terminating objects disappear with the objects that they control.
    pub(super) fn go_on(&mut self) {
        let observed = &mut self.observed;
        let emptied = self.namespace.is_some_and(|namespace| namespace.terminating);
        let ends = observed.target.as_ref().is_some_and(|target| target.value.state.terminating);
        if (emptied || ends) && !self.held {
            let gone = observed.target.take().map(|target| target.uid);
            for secret in observed.uploads.iter_mut().filter(|it| emptied || **it == gone) {
                *secret = None;
            }
        }
        if emptied && observed.target.is_none() {
            self.namespace = None;
        }
        let free = |source: &Cached<SourceObject>| {
            source.value.state.terminating && source.value.finalizers == Finalizers::None
        };
        observed.source = observed.source.take().filter(|source| !free(source));
    }

    /// Returns whether no target can be created.
    pub(super) fn lacks_namespace(&self) -> bool {
        self.namespace.is_none() && !self.rules.creates_namespaces
    }

    fn perform(&mut self, action: SyncAction, attempt: &mut Attempt) -> Option<Option<Reason>> {
        match action {
            SyncAction::ConfirmGone if self.observed.source.is_none() => {
                self.observed.source = self.unlisted.take();
                let is_gone = self.observed.source.is_none();
                attempt.gone = is_gone.then(|| self.observed.subjects());
            }
            SyncAction::ConfirmGone => {
                self.observed.target = self.unlisted_target.take();
                let is_gone = self.observed.target.is_none();
                attempt.gone = is_gone.then(|| self.observed.subjects());
            }
            SyncAction::Create if self.lacks_namespace() => return Some(Some(Reason::NoNamespace)),
            SyncAction::Create if self.namespace.is_none() => {
                attempt.namespace_created = true;
                self.namespace = Some(Namespace { ours: true, terminating: false });
            }
            SyncAction::Create if self.namespace.is_some_and(|it| it.terminating) => {
                return Some(Some(Reason::NamespaceTerminating));
            }
            SyncAction::SyncSecret(index) => {
                attempt.secrets_tried.push(index);
                if !self.refused.contains(&index) {
                    self.observed.uploads[index] = None;
                }
            }
            SyncAction::DeleteTarget => {
                if let Err(reason) = self.verdict {
                    return Some(Some(reason));
                }
                self.observed.target.as_mut().unwrap().value.state.terminating = true;
                return Some(Some(Reason::TargetTerminating));
            }
            SyncAction::DeleteNamespace => {
                attempt.namespace_done = true;
                let goes = |it: &&mut Namespace| it.ours && !self.used;
                if let Some(namespace) = self.namespace.as_mut().filter(goes) {
                    namespace.terminating = true;
                }
            }
            action => self.write(action),
        }
        None
    }

    /// Actions that need a source.
    fn write(&mut self, action: SyncAction) {
        let Observed { source, target, updated, source_cluster, .. } = &mut self.observed;
        let source = source.as_mut().unwrap();
        let content = source.value.state.content + if self.alters { 500 } else { 0 };
        let cluster = source_cluster.current;
        let mark = Some(CopyOf { uid: source.uid, cluster, ..copy() });
        match (action, target) {
            (SyncAction::AddFinalizer, _) => source.value.finalizers = Finalizers::Ours(0),
            (SyncAction::Release, _) => {
                source.value.generations = Generations::default();
                source.value.finalizers = Finalizers::None;
            }
            (SyncAction::Create, target @ None) => {
                self.made += 1;
                let made = self::state(content, source.value.state.metadata, FRESH);
                *updated = Some((source.value.state.written(), made.written()));
                let mut made = Cached { uid: uid(self.made), ..self::target(made) };
                made.value.copy_of = mark;
                *target = Some(made);
            }
            (SyncAction::Update { content: whole }, Some(target)) => {
                update(
                    &mut target.value.state,
                    whole.then_some(content),
                    source.value.state.metadata,
                );
                let became = target.value.state.written();
                *updated = Some((source.value.state.written(), became));
                target.value.copy_of = mark;
            }
            (SyncAction::UploadStatus, Some(target)) => {
                source.value.state.status = target.value.state.status;
            }
            (SyncAction::RecordGenerations, Some(target)) => {
                source.value.generations = Generations {
                    remote: Some(source.value.state.generation),
                    local: Some(target.value.state.generation),
                    uid: Some(target.uid),
                };
            }
            (action, target) => panic!("{action:?} with {target:?}"),
        }
    }
}

/// The target after it was written with this content and metadata.
fn update(target: &mut ObjectState, content: Option<u64>, metadata: u64) {
    if let Some(content) = content.filter(|content| target.content != *content) {
        target.content = content;
        target.generation += 1;
    }
    target.metadata = metadata;
}
