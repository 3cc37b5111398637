//! Conditions of a ManifestWork and of its manifests: upstream's types, reasons and messages.

use super::{
    apply::ApplyError,
    feedback::Feedback,
    objects::{ManifestCondition, ManifestWork, WorkCondition},
};

pub(crate) const APPLIED: &str = "Applied";
pub(crate) const AVAILABLE: &str = "Available";
pub(crate) const COMPLETE: &str = "Complete";
pub(crate) const FEEDBACK: &str = "StatusFeedbackSynced";
/// Maximum length of a message, in bytes: one status holds the messages of all manifests.
const MAX_MESSAGE_LENGTH: usize = 1024;

/// Whether an applied object exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    Yes,
    No,
    /// Upstream's reason, and the cause.
    Unknown(&'static str, String),
}

impl ManifestWork {
    pub(crate) fn is_complete(&self) -> bool {
        is_status_condition_true(&self.status.conditions, COMPLETE)
    }
}

/// Sets a manifest's conditions Available and, if there was an attempt, Applied.
pub(crate) fn set_manifest(
    conditions: &mut Vec<WorkCondition>,
    applied: Option<&Result<(), ApplyError>>,
    available: &Availability,
    (generation, now): (i64, &str),
) {
    let (status, reason, message) = match available {
        Availability::Yes => ("True", "ResourceAvailable", "Resource is available".to_owned()),
        Availability::No => {
            ("False", "ResourceNotAvailable", "Resource is not available".to_owned())
        }
        Availability::Unknown(reason, cause) => ("Unknown", *reason, cause.clone()),
    };
    // Readers of upstream's statuses expect Available first.
    set(conditions, new(AVAILABLE, status, reason, message, None), now);
    let (status, (reason, message)) = match applied {
        None => return,
        Some(Ok(())) => ("True", ("AppliedManifestComplete", "Apply manifest complete".to_owned())),
        Some(Err(error)) => ("False", error.condition()),
    };
    let known = find_status_condition(conditions, APPLIED);
    let moved = known.is_some_and(|known| known.observed_generation != Some(generation));
    set(conditions, new(APPLIED, status, reason, message, Some(generation)), now);
    if moved {
        touch(conditions, APPLIED, now);
    }
}

/// Sets a manifest's condition StatusFeedbackSynced; without rules, `feedback` is `None`. Changed values move its time.
pub(crate) fn set_feedback(
    conditions: &mut Vec<WorkCondition>,
    feedback: Option<&Feedback>,
    has_changed: bool,
    now: &str,
) {
    let (status, reason, message) = match feedback.map(|feedback| &feedback.error) {
        None => ("True", "NoStatusFeedbackSynced", String::new()),
        Some(None) => ("True", "StatusFeedbackSynced", String::new()),
        Some(Some(error)) => {
            let message = format!("Sync status feedback failed with error {error}");
            ("False", "StatusFeedbackSyncFailed", message)
        }
    };
    set(conditions, new(FEEDBACK, status, reason, message, None), now);
    if has_changed {
        touch(conditions, FEEDBACK, now);
    }
}

fn touch(conditions: &mut [WorkCondition], kind: &str, now: &str) {
    if let Some(condition) = conditions.iter_mut().find(|condition| condition.kind == kind) {
        condition.last_transition_time = now.to_owned();
    }
}

/// Sets a work's conditions Applied and Available, which aggregate its manifests' conditions.
pub(crate) fn set_work(
    conditions: &mut Vec<WorkCondition>,
    manifests: &[ManifestCondition],
    (generation, now): (i64, &str),
) {
    let is_tried = |manifest: &ManifestCondition| {
        find_status_condition(&manifest.conditions, APPLIED)
            .is_some_and(|applied| applied.observed_generation == Some(generation))
    };
    // In a complete work, no manifest is applied: the condition stays.
    if !manifests.is_empty() && manifests.iter().all(is_tried) {
        let mut manifests = manifests.iter();
        let applied = manifests.all(|it| is_status_condition_true(&it.conditions, APPLIED));
        let (status, reason, message) = match applied {
            true => ("True", "AppliedManifestWorkComplete", "Apply manifest work complete"),
            false => ("False", "AppliedManifestWorkFailed", "Failed to apply manifest work"),
        };
        set(conditions, new(APPLIED, status, reason, message.to_owned(), Some(generation)), now);
    }
    let count = |wanted: &str| {
        let available =
            manifests.iter().filter_map(|it| find_status_condition(&it.conditions, AVAILABLE));
        available.filter(|condition| condition.status == wanted).count()
    };
    let (absent, unknown, total) = (count("False"), count("Unknown"), manifests.len());
    let (status, reason, message) = match (absent, unknown, total) {
        (1.., ..) => {
            let message = format!("{absent} of {total} resources are not available");
            ("False", "ResourcesNotAvailable", message)
        }
        (0, 1.., _) => {
            let message = format!("{unknown} of {total} resources have unknown status");
            ("Unknown", "ResourcesStatusUnknown", message)
        }
        (0, 0, 0) => {
            let message = "cannot get any available resource ".to_owned();
            ("Unknown", "ResourcesStatusUnknown", message)
        }
        _ => ("True", "ResourcesAvailable", "All resources are available".to_owned()),
    };
    set(conditions, new(AVAILABLE, status, reason, message, Some(generation)), now);
}

pub(crate) fn set_deleting(conditions: &mut Vec<WorkCondition>, (generation, now): (i64, &str)) {
    let message = "ManifestWork is being deleted".to_owned();
    set(conditions, new("Deleting", "True", "WorkDeleting", message, Some(generation)), now);
}

/// Returns whether the manifest was applied at this generation of its work.
pub(crate) fn was_applied(manifest: Option<&ManifestCondition>, generation: i64) -> bool {
    let applied = manifest.and_then(|it| find_status_condition(&it.conditions, APPLIED));
    applied.is_some_and(|it| it.status == "True" && it.observed_generation == Some(generation))
}

/// Returns whether the manifest is complete, and no longer applied.
pub(crate) fn is_complete(manifest: Option<&ManifestCondition>) -> bool {
    manifest.is_some_and(|manifest| is_status_condition_true(&manifest.conditions, COMPLETE))
}

/// Returns the condition of a type (apimachinery `pkg/api/meta/conditions.go`).
pub(crate) fn find_status_condition<'a>(
    conditions: &'a [WorkCondition],
    kind: &str,
) -> Option<&'a WorkCondition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

pub(crate) fn is_status_condition_true(conditions: &[WorkCondition], kind: &str) -> bool {
    find_status_condition(conditions, kind).is_some_and(|condition| condition.status == "True")
}

pub(super) fn new(
    kind: &str,
    status: &str,
    reason: &str,
    message: String,
    observed_generation: Option<i64>,
) -> WorkCondition {
    WorkCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message[..message.floor_char_boundary(MAX_MESSAGE_LENGTH)].to_owned(),
        observed_generation,
        ..WorkCondition::default()
    }
}

/// Like SetStatusCondition (apimachinery `pkg/api/meta/conditions.go`), keeps the position, and moves the time only if
/// the status changes.
pub(super) fn set(conditions: &mut Vec<WorkCondition>, mut condition: WorkCondition, now: &str) {
    now.clone_into(&mut condition.last_transition_time);
    let Some(known) = conditions.iter_mut().find(|known| known.kind == condition.kind) else {
        return conditions.push(condition);
    };
    if known.status == condition.status {
        condition.last_transition_time = known.last_transition_time.clone();
    }
    *known = condition;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> ApplyError {
        ApplyError::Failed("no".to_owned())
    }

    fn manifest(failure: Option<ApplyError>, available: &Availability) -> ManifestCondition {
        let mut manifest = ManifestCondition::default();
        let applied = failure.map_or(Ok(()), Err);
        set_manifest(&mut manifest.conditions, Some(&applied), available, (1, "t1"));
        manifest
    }

    #[test]
    fn applied_moves_with_the_generation_and_available_does_not() {
        let mut manifest = manifest(None, &Availability::Yes);
        assert!(was_applied(Some(&manifest), 1) && !was_applied(Some(&manifest), 2));
        set_manifest(&mut manifest.conditions, Some(&Ok(())), &Availability::Yes, (2, "t2"));
        let [available, applied] = &*manifest.conditions else { panic!("two") };
        assert_eq!((&*available.kind, &*available.last_transition_time), ("Available", "t1"));
        assert_eq!((&*applied.last_transition_time, applied.observed_generation), ("t2", Some(2)));
        let error = Err(failed());
        set_manifest(&mut manifest.conditions, Some(&error), &Availability::No, (2, "t3"));
        set_manifest(&mut manifest.conditions, None, &Availability::No, (3, "t3"));
        assert_eq!(manifest.conditions[1].message, "Failed to apply manifest: no");
        assert!(!was_applied(Some(&manifest), 2) && !was_applied(None, 0));
        assert!(!is_complete(Some(&manifest)));
        set(&mut manifest.conditions, new(COMPLETE, "True", "", String::new(), None), "t4");
        assert!(is_complete(Some(&manifest)));
    }

    #[test]
    fn long_message_is_cut_at_a_character() {
        let message = format!("a{}", "ä".repeat(MAX_MESSAGE_LENGTH));
        assert_eq!(new(APPLIED, "False", "", message, None).message.len(), MAX_MESSAGE_LENGTH - 1);
    }

    #[test]
    fn feedback_moves_with_its_values() {
        let (mut conditions, mut feedback) = (Vec::new(), Feedback::default());
        set_feedback(&mut conditions, None, false, "t1");
        assert_eq!(conditions[0].reason, "NoStatusFeedbackSynced");
        set_feedback(&mut conditions, Some(&feedback), true, "t2");
        let [condition] = &*conditions else { panic!("one") };
        assert_eq!(
            (&*condition.reason, &*condition.last_transition_time),
            ("StatusFeedbackSynced", "t2")
        );
        feedback.error = Some("x".to_owned());
        set_feedback(&mut conditions, Some(&feedback), false, "t3");
        assert_eq!(conditions[0].message, "Sync status feedback failed with error x");
    }

    #[test]
    fn work_is_as_its_worst_manifest() {
        let (yes, no) = (Availability::Yes, Availability::No);
        let unknown = Availability::Unknown("FetchingResourceFailed", "x".into());
        for (manifests, applied, available, message) in [
            (vec![], "", "Unknown", "cannot get any available resource "),
            (vec![manifest(None, &yes)], "True", "True", "All resources are available"),
            (
                vec![manifest(None, &yes), manifest(Some(failed()), &unknown)],
                "False",
                "Unknown",
                "1 of 2 resources have unknown status",
            ),
            (
                vec![manifest(Some(failed()), &unknown), manifest(None, &no)],
                "False",
                "False",
                "1 of 2 resources are not available",
            ),
        ] {
            let mut conditions = Vec::new();
            set_work(&mut conditions, &manifests, (1, "t"));
            let find = |kind: &str| find_status_condition(&conditions, kind);
            assert_eq!(find(APPLIED).map_or("", |c| &*c.status), applied);
            let found = find(AVAILABLE).unwrap();
            assert_eq!((&*found.status, &*found.message), (available, message));
        }
    }
}
