//! Two clusters as far as one pair sees them: what a step changes there, and what the servers do after it.

use super::super::*;
use crate::{
    model::{
        annotations::Uid,
        object::{CopyOf, Published},
    },
    sync::observed::Settled,
};

/// A pair and the clusters around it.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) view: View,
    pub(super) rules: Rules,
    /// A source that no list holds, though it is there.
    pub(super) unlisted: Option<Known<Source>>,
    /// The same of a target.
    pub(super) unlisted_target: Option<Known<Target>>,
    pub(super) verdict: Verdict,
    /// The target's server makes something else of each content.
    pub(super) alters: bool,
    /// Finalizers of others hold the target.
    pub(super) held: bool,
    /// Secrets that the source's server refuses.
    pub(super) refused: Vec<usize>,
    made: u8,
}

/// Where the pair stands at the end, without what counts writes.
#[derive(Debug, PartialEq)]
pub(super) struct End {
    source: Option<(Finalizers, u64)>,
    /// Whether the source's annotations are about this target: generation and uid.
    published: Option<(Option<u32>, bool, bool)>,
    target: Option<(u64, u64, u64, bool, bool)>,
    namespace: Option<Namespace>,
    uploads: Vec<Option<Upload>>,
}

pub(super) const PLACE: u64 = 70;
/// What the target's server makes of a new object.
pub(super) const FRESH: u64 = 60;

pub(super) fn uid(last: u8) -> Uid {
    Uid::parse(&format!("00000000-0000-0000-0000-0000000000{last:02x}")).unwrap()
}

pub(super) fn known<R>(last: u8, row: R) -> Known<R> {
    Known { uid: uid(last), version: 1, large: false, row }
}

/// The hub.
pub(super) fn hub() -> Uid {
    uid(0xa0)
}

pub(super) fn state(content: u64, metadata: u64, status: u64) -> State {
    State { generation: 1, content, metadata, status, terminating: false, paused: false }
}

/// One that was never seen before.
pub(super) fn source(state: State) -> Known<Source> {
    let (finalizers, published) = (Finalizers::None, Published::default());
    known(1, Source { state, finalizers, published, copied_from: None })
}

pub(super) fn target(state: State) -> Known<Target> {
    known(2, Target { state, copy_of: None, has_annotations: true, orphaned: false })
}

/// The mark of a copy of our source.
pub(super) fn copy() -> CopyOf {
    CopyOf { cluster: hub(), uid: uid(1), place: PLACE, generation: 1 }
}

pub(super) fn namespace(owner: Option<&str>) -> Known<Namespace> {
    let row = Namespace { terminating: false, owner: owner.map(Into::into), owner_uid: None };
    known(3, row)
}

/// A Secret of the target that was not uploaded yet.
pub(super) fn secret() -> Known<Upload> {
    known(4, Upload { controller: Some(uid(2)), changed: true, to: None })
}

pub(super) fn rules(mode: Mode) -> Rules {
    let orphans = match mode {
        Mode::Safe => OrphanPolicy::Confirm,
        Mode::Compat => OrphanPolicy::Delete,
    };
    Rules { mode, orphans, namespaced: true, status: true, selective: false }
}

impl World {
    /// With a namespace that nobody owns, and nothing in it.
    pub(super) fn new(mode: Mode) -> Self {
        let view = View {
            source: None,
            target: None,
            namespace: Some(namespace(None)),
            namespace_shared: false,
            uploads: Vec::new(),
            settled: Settled::default(),
            left: false,
            name: "test".into(),
            place: PLACE,
            source_cluster: Some(hub()),
            target_cluster: Some(uid(0xa1)),
            accepted: false,
        };
        Self {
            view,
            rules: rules(mode),
            unlisted: None,
            unlisted_target: None,
            verdict: Verdict::Delete,
            alters: false,
            held: false,
            refused: Vec::new(),
            made: 0x10,
        }
    }

    /// One call of a worker: its steps, and how the pair stands then. At most `most` of them are done.
    pub(super) fn pass(&mut self, most: usize) -> (Vec<Step>, Option<Standing>) {
        let (mut pass, mut steps) = (Pass::default(), Vec::new());
        while steps.len() < most {
            let step = next(&self.view, &pass, &self.rules);
            if let Step::Done(standing) = step {
                return (steps, Some(standing));
            }
            super::random::allowed(self, &pass, step, &steps);
            steps.push(step);
            if let Some(standing) = self.perform(step, &mut pass) {
                return (steps, Some(standing));
            }
            assert!(steps.len() < 24, "{steps:?}\n{self:?}");
        }
        (steps, None)
    }

    /// All passes until nothing changes any more, with what the servers do between them.
    pub(super) fn run(&mut self) -> Vec<Vec<Step>> {
        let mut passes = Vec::new();
        loop {
            let before = self.clone();
            let (steps, standing) = self.pass(usize::MAX);
            self.go_on();
            if standing != Some(Standing::Again) && self.is_as(&before) {
                return passes;
            }
            if steps.iter().any(|step| step.writes()) {
                passes.push(steps);
            }
            assert!(passes.len() < 12, "{passes:?}\n{self:?}");
        }
    }

    /// Whether nothing happened since, neither on a cluster nor in memory.
    fn is_as(&self, before: &Self) -> bool {
        let all = |world: &Self| {
            let unlisted = (world.unlisted.is_some(), world.unlisted_target.is_some());
            (world.end(), world.view.settled, unlisted)
        };
        all(self) == all(before)
    }

    pub(super) fn end(&self) -> End {
        let view = &self.view;
        let (from, to) = (view.source.as_ref(), view.target.as_ref());
        End {
            source: from.map(|source| (source.row.finalizers, source.row.state.status)),
            published: from.zip(to).map(|(source, target)| {
                let published = &source.row.published;
                let generation = published.local == Some(target.row.state.generation);
                (published.remote, generation, published.uid == Some(target.uid))
            }),
            target: to.map(|target| {
                let (row, state) = (&target.row, &target.row.state);
                let copied = row.copy_of.is_some();
                (state.content, state.metadata, state.status, copied, row.orphaned)
            }),
            namespace: view.namespace.as_ref().map(|namespace| namespace.row.clone()),
            uploads: view
                .uploads
                .iter()
                .map(|upload| upload.as_ref().map(|upload| upload.row.clone()))
                .collect(),
        }
    }

    /// What the servers do by themselves: what is being deleted goes, and what it controls with it.
    pub(super) fn go_on(&mut self) {
        let view = &mut self.view;
        let emptied = view.namespace.as_ref().is_some_and(|namespace| namespace.row.terminating);
        let ends = view.target.as_ref().is_some_and(|target| target.row.state.terminating);
        if (emptied || ends) && !self.held {
            let gone = view.target.take().map(|target| target.uid);
            let of_gone =
                |secret: &Known<Upload>| emptied || gone.is_some() && secret.row.controller == gone;
            view.uploads.iter_mut().for_each(|secret| *secret = secret.take_if(|s| !of_gone(s)));
        }
        if emptied && view.target.is_none() {
            view.namespace = None;
        }
        let free = |source: &Known<Source>| {
            source.row.state.terminating && source.row.finalizers == Finalizers::None
        };
        view.source = view.source.take().filter(|source| !free(source));
    }

    fn perform(&mut self, step: Step, pass: &mut Pass) -> Option<Standing> {
        pass.wrote |= step.writes() && !matches!(step, Step::UploadSecret(_));
        pass.claimed |= step == Step::Claim;
        pass.spec_begun |= matches!(
            step,
            Step::CreateNamespace | Step::Create | Step::Update { .. } | Step::Publish
        );
        match step {
            Step::ProveSource => match self.unlisted.take() {
                Some(source) => self.view.source = Some(source),
                None => pass.source_gone = true,
            },
            Step::ProveTarget => match self.unlisted_target.take() {
                Some(target) => self.view.target = Some(target),
                None => pass.target_gone = true,
            },
            Step::Judge => pass.verdict = Some(self.verdict),
            Step::UploadSecret(index) => {
                pass.tried.push(index);
                self.upload(index);
            }
            Step::MarkOrphan => self.view.target.as_mut().unwrap().row.orphaned = true,
            Step::DeleteTarget => {
                self.view.target.as_mut().unwrap().row.state.terminating = true;
                return Some(Standing::Waiting(TARGET_TERMINATING));
            }
            Step::DeleteNamespace => {
                self.view.namespace.as_mut().unwrap().row.terminating = true;
                return Some(Standing::Waiting(NAMESPACE_TERMINATING));
            }
            step => self.write(step),
        }
        None
    }

    fn upload(&mut self, index: usize) {
        if !self.refused.contains(&index) {
            let to = self.view.source.as_ref().unwrap().uid;
            let upload = self.view.uploads[index].as_mut().unwrap();
            upload.row.changed = false;
            upload.row.to = Some(to).filter(|_| self.rules.mode == Mode::Safe);
        }
    }

    /// What needs a source.
    fn write(&mut self, step: Step) {
        let safe = self.rules.mode == Mode::Safe;
        let View { source, target, namespace, settled, source_cluster, .. } = &mut self.view;
        let source = source.as_mut().unwrap();
        let content = source.row.state.content + if self.alters { 500 } else { 0 };
        let mark = Some(CopyOf { uid: source.uid, ..copy() });
        let mark = mark.filter(|_| safe && *source_cluster == Some(hub()));
        match (step, target) {
            (Step::Claim, _) => source.row.finalizers = Finalizers::Ours(0),
            (Step::Release, _) => source.row.finalizers = Finalizers::None,
            (Step::CreateNamespace, _) => {
                let owner_uid = safe.then_some(source.uid);
                let owner = Some("test".into());
                *namespace = Some(known(3, Namespace { terminating: false, owner, owner_uid }));
            }
            (Step::Create, target @ None) => {
                self.made += 1;
                let made = self::state(content, source.row.state.metadata, FRESH);
                settled.after_update(&source.row.state, &made);
                let mut made = Known { uid: uid(self.made), ..self::target(made) };
                made.row.copy_of = mark;
                *target = Some(made);
            }
            (Step::Update { content: whole, metadata }, Some(target)) => {
                update(
                    &mut target.row.state,
                    whole.then_some(content),
                    &source.row.state,
                    metadata,
                );
                target.row.orphaned &= !metadata;
                settled.after_update(&source.row.state, &target.row.state);
                target.row.copy_of = mark.or_else(|| target.row.copy_of.take());
            }
            (Step::UploadStatus, Some(target)) => {
                source.row.state.status = target.row.state.status;
                settled.after_upload(&source.row.state, &target.row.state);
            }
            (Step::Publish, Some(target)) => {
                source.row.published = Published {
                    remote: Some(source.row.state.generation),
                    local: Some(target.row.state.generation),
                    uid: safe.then_some(target.uid),
                };
            }
            (step, target) => panic!("{step:?} with {target:?}"),
        }
    }
}

/// What a target becomes that gets this content, and the source's metadata if those differ.
fn update(target: &mut State, content: Option<u64>, source: &State, metadata: bool) {
    if let Some(content) = content.filter(|content| target.content != *content) {
        target.content = content;
        target.generation += 1;
    }
    if metadata {
        target.metadata = source.metadata;
    }
}
