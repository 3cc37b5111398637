//! Condition rules: they derive a manifest's conditions from its object, and a work's conditions from its manifests
//! (ocm `pkg/work/spoke/conditions`).

use apiclient::resource::valid_name;
use serde_json::Value;

use super::{
    conditions::{APPLIED, AVAILABLE, COMPLETE, FEEDBACK, new, set},
    objects::{ConditionRule, ManifestCondition, ManifestResourceMeta, WorkCondition},
};

/// The prefix of reasons of conditions from rules.
const REASON_PREFIX: &str = "ConditionRule";
const PROGRESSING: &str = "Progressing";
/// Maximum length of a condition's type, after its prefix.
const MAX_WORD_LENGTH: usize = 63;

/// Sets the conditions of a manifest from its rules, and drops conditions of earlier generations.
pub(crate) fn set_manifest(
    conditions: &mut Vec<WorkCondition>,
    rules: &[ConditionRule],
    (meta, object): (&ManifestResourceMeta, &Value),
    (generation, now): (i64, &str),
) {
    for rule in rules {
        if is_condition_type(&rule.condition)
            && let Some((status, reason, message)) = evaluate(rule, meta, object)
        {
            set(conditions, new(&rule.condition, status, reason, message, Some(generation)), now);
        }
    }
    remove_old(conditions, generation);
}

/// Returns whether rules may set this condition: the agent sets some itself, and the hub refuses a whole status with an
/// invalid type (metav1.Condition).
fn is_condition_type(name: &str) -> bool {
    let (prefix, word) = name.split_once('/').unwrap_or(("a", name));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    valid_name(prefix)
        && word.len() <= MAX_WORD_LENGTH
        && word.chars().all(is_plain)
        && word.starts_with(char::is_alphanumeric)
        && word.ends_with(char::is_alphanumeric)
        && ![APPLIED, AVAILABLE, FEEDBACK].contains(&name)
}

/// Returns status, reason and message of a rule; `None` if this kind has no such well-known condition.
fn evaluate(
    rule: &ConditionRule,
    meta: &ManifestResourceMeta,
    object: &Value,
) -> Option<(&'static str, &'static str, String)> {
    let invalid = |message: String| ("Unknown", "ConditionRuleInvalid", message);
    let status = &object["status"];
    let (is_complete, message) =
        match (&*rule.kind, &*meta.group, &*meta.version, &*meta.kind, &*rule.condition) {
            ("WellKnownConditions", "batch", "v1", "Job", COMPLETE) => {
                let mut conditions = status["conditions"].as_array().into_iter().flatten();
                let is_finished = conditions.any(|condition| {
                    let kind = &condition["type"];
                    (kind == "Complete" || kind == "Failed") && condition["status"] == "True"
                });
                let message = if is_finished { "Job is finished" } else { "Job is not finished" };
                (is_finished, message.to_owned())
            }
            ("WellKnownConditions", "", "v1", "Pod", COMPLETE) => {
                let phase = status["phase"].as_str().unwrap_or_default();
                (matches!(phase, "Succeeded" | "Failed"), format!("Pod is in phase {phase}"))
            }
            ("WellKnownConditions", ..) => return None,
            ("CEL", ..) => {
                return Some(invalid("CEL rules are not evaluated by this agent".to_owned()));
            }
            (other, ..) => {
                return Some(invalid(format!("unrecognized condition rule type {other}")));
            }
        };
    Some((if is_complete { "True" } else { "False" }, "ConditionRuleEvaluated", message))
}

/// Sets the conditions of a work that aggregate its manifests' conditions from rules.
pub(crate) fn set_work(
    conditions: &mut Vec<WorkCondition>,
    manifests: &[ManifestCondition],
    (generation, now): (i64, &str),
) {
    let of_manifests = || manifests.iter().flat_map(|manifest| &manifest.conditions);
    let mut kinds: Vec<&str> =
        of_manifests().filter(|c| is_from_rule(c)).map(|condition| &*condition.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let of_kind: Vec<&WorkCondition> =
            of_manifests().filter(|c| c.kind == kind && is_from_rule(c)).collect();
        let any = |status: &str| of_kind.iter().any(|condition| condition.status == status);
        // A work progresses while any part does; any other condition is that of the worst part.
        let order = if kind == PROGRESSING {
            ["True", "Unknown", "False"]
        } else {
            ["False", "Unknown", "True"]
        };
        let status = order.into_iter().find(|status| any(status)).unwrap_or("Unknown");
        let message = match &*of_kind {
            [one] if !one.message.is_empty() => one.message.clone(),
            all => format!("Aggregated from {} manifest conditions", all.len()),
        };
        let reason = "ConditionRulesAggregated";
        set(conditions, new(kind, status, reason, message, Some(generation)), now);
    }
    remove_old(conditions, generation);
}

fn is_from_rule(condition: &WorkCondition) -> bool {
    condition.reason.starts_with(REASON_PREFIX)
}

/// Removes a manifest's conditions that no rule names any more, even if its object cannot be read.
pub(crate) fn retain(conditions: &mut Vec<WorkCondition>, rules: &[ConditionRule]) {
    conditions.retain(|condition| {
        !is_from_rule(condition) || rules.iter().any(|rule| rule.condition == condition.kind)
    });
}

/// Removes conditions of removed rules: their `observedGeneration` stays behind the work's generation.
fn remove_old(conditions: &mut Vec<WorkCondition>, generation: i64) {
    conditions.retain(|condition| {
        !is_from_rule(condition) || condition.observed_generation == Some(generation)
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(kind: &str, condition: &str) -> ConditionRule {
        ConditionRule { condition: condition.into(), kind: kind.into() }
    }

    fn meta(group: &str, kind: &str) -> ManifestResourceMeta {
        let (group, version, kind) = (group.into(), "v1".into(), kind.into());
        ManifestResourceMeta { group, version, kind, ..Default::default() }
    }

    #[test]
    fn rules_give_upstreams_conditions_and_cel_is_refused() {
        let job =
            |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
        let (jobs, pods) = (meta("batch", "Job"), meta("", "Pod"));
        for (rule, meta, object, status, reason, message) in [
            (
                rule("WellKnownConditions", COMPLETE),
                &jobs,
                job("Complete"),
                "True",
                "Evaluated",
                "Job is finished",
            ),
            (
                rule("WellKnownConditions", COMPLETE),
                &jobs,
                job("Failed"),
                "True",
                "Evaluated",
                "Job is finished",
            ),
            (
                rule("WellKnownConditions", COMPLETE),
                &jobs,
                job("Suspended"),
                "False",
                "Evaluated",
                "Job is not finished",
            ),
            (
                rule("WellKnownConditions", COMPLETE),
                &jobs,
                json!({}),
                "False",
                "Evaluated",
                "Job is not finished",
            ),
            (
                rule("WellKnownConditions", COMPLETE),
                &pods,
                json!({"status": {"phase": "Failed"}}),
                "True",
                "Evaluated",
                "Pod is in phase Failed",
            ),
            (rule("WellKnownConditions", "Odd"), &pods, json!({}), "", "", ""),
            (
                rule("CEL", "Ready"),
                &pods,
                json!({}),
                "Unknown",
                "Invalid",
                "CEL rules are not evaluated by this agent",
            ),
            (
                rule("X", "Ready"),
                &pods,
                json!({}),
                "Unknown",
                "Invalid",
                "unrecognized condition rule type X",
            ),
            (rule("CEL", APPLIED), &pods, json!({}), "", "", ""),
        ] {
            let mut conditions = Vec::new();
            set_manifest(&mut conditions, &[rule], (meta, &object), (2, "t"));
            match &*conditions {
                [] => assert_eq!(status, ""),
                [condition] => {
                    assert_eq!((&*condition.status, &*condition.message), (status, message));
                    assert_eq!(condition.reason, format!("ConditionRule{reason}"));
                    assert_eq!(condition.observed_generation, Some(2));
                }
                more => panic!("{more:?}"),
            }
        }
    }

    #[test]
    fn rules_set_what_the_hub_accepts() {
        for (name, is_type) in [
            ("Complete", true),
            ("example.com/Ready", true),
            ("a", true),
            ("", false),
            ("has blank", false),
            ("Ready-", false),
            ("Example/Ready", false),
            ("StatusFeedbackSynced", false),
        ] {
            assert_eq!(is_condition_type(name), is_type, "{name}");
        }
        assert!(!is_condition_type(&"a".repeat(64)));
    }

    #[test]
    fn condition_goes_with_its_rule() {
        let (mut conditions, pods) = (Vec::new(), meta("", "Pod"));
        set(&mut conditions, new(AVAILABLE, "True", "ResourceAvailable", String::new(), None), "t");
        set_manifest(&mut conditions, &[rule("CEL", "Ready")], (&pods, &json!({})), (1, "t"));
        assert_eq!(conditions.len(), 2);
        let mut unread = conditions.clone();
        retain(&mut unread, &[rule("CEL", "Other")]);
        assert_eq!(unread.len(), 1);
        set_manifest(&mut conditions, &[], (&pods, &json!({})), (2, "t"));
        assert_eq!(conditions.iter().map(|c| &*c.kind).collect::<Vec<_>>(), [AVAILABLE]);
    }

    #[test]
    fn work_sums_up_its_manifests() {
        let manifest = |kind: &str, status: &'static str| {
            let mut manifest = ManifestCondition::default();
            let condition = new(kind, status, "ConditionRuleEvaluated", "m".to_owned(), Some(1));
            set(&mut manifest.conditions, condition, "t");
            manifest
        };
        for (kind, statuses, status, message) in [
            ("Complete", &["True", "True"][..], "True", "Aggregated from 2 manifest conditions"),
            ("Complete", &["True", "Unknown"], "Unknown", "Aggregated from 2 manifest conditions"),
            ("Complete", &["Unknown", "False"], "False", "Aggregated from 2 manifest conditions"),
            ("Progressing", &["False", "True"], "True", "Aggregated from 2 manifest conditions"),
            (
                "Progressing",
                &["False", "Unknown"],
                "Unknown",
                "Aggregated from 2 manifest conditions",
            ),
            ("Degraded", &["False"], "False", "m"),
        ] {
            let manifests: Vec<_> = statuses.iter().map(|status| manifest(kind, status)).collect();
            let mut conditions = Vec::new();
            set_work(&mut conditions, &manifests, (2, "t"));
            let [condition] = &*conditions else { panic!("{conditions:?}") };
            assert_eq!((&*condition.status, &*condition.message), (status, message));
            set_work(&mut conditions, &[], (3, "t"));
            assert!(conditions.is_empty(), "no rule is left");
        }
    }
}
