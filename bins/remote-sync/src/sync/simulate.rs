//! Simulated actions for `-dry-run`: pure.

use crate::{
    model::{
        annotations::Uid,
        object::{
            Cached, CopyOf, Finalizers, Generations, ObjectState, TargetNamespace, TargetObject,
        },
    },
    sync::{
        decide::SyncAction,
        observed::{Attempt, Observed},
    },
};

/// Changes the observed state as the action would change the clusters; `false` if its effect cannot be known.
pub(crate) fn simulate(action: SyncAction, observed: &mut Observed, attempt: &mut Attempt) -> bool {
    let mark = mark(observed);
    let Observed { source, target, .. } = observed;
    match (action, source, target) {
        (SyncAction::AddFinalizer, Some(source), _) => {
            attempt.finalizer_added = true;
            source.value.finalizers = Finalizers::Ours(0);
        }
        (SyncAction::UploadStatus, Some(source), Some(target)) => {
            source.value.state.status = target.value.state.status;
        }
        (SyncAction::UploadSecret(index), ..) => attempt.secrets_tried.push(index),
        (SyncAction::CreateNamespace, Some(source), _) => {
            let value = TargetNamespace {
                terminating: false,
                owner: None,
                owner_uid: None,
                instance: None,
            };
            observed.namespace = Some(Cached { uid: source.uid, version: 0, large: false, value });
        }
        (SyncAction::Create, Some(source), target) => {
            let state = ObjectState { generation: 1, ..source.value.state.clone() };
            let value = TargetObject {
                state,
                copy_of: mark,
                has_annotations: true,
                beside_spec: false,
                orphaned: false,
            };
            // Of no object that exists.
            let uid = Uid::default();
            *target = Some(Cached { uid, version: 0, large: false, value });
        }
        (SyncAction::Adopt | SyncAction::UpdateMark, _, Some(target)) => {
            target.value.copy_of = mark
        }
        (SyncAction::Update { .. }, Some(source), Some(target)) => {
            target.value.state.content = source.value.state.content;
            target.value.state.metadata = source.value.state.metadata;
        }
        (SyncAction::RecordGenerations, Some(source), Some(target)) => {
            source.value.generations.remote = Some(source.value.state.generation);
            source.value.generations.local = Some(target.value.state.generation);
            source.value.generations.uid = Some(target.uid);
        }
        (SyncAction::RemoveRecords { finalizer }, Some(source), _) => {
            source.value.generations = Generations::default();
            if finalizer {
                source.value.finalizers = Finalizers::None;
            }
        }
        _ => return false,
    }
    true
}

/// The origin annotation that the target would have.
fn mark(observed: &Observed) -> Option<CopyOf> {
    let source = observed.source.as_ref()?;
    Some(CopyOf {
        cluster: observed.source_marks.current,
        uid: source.uid,
        place: observed.place,
        generation: source.value.state.generation,
    })
}
