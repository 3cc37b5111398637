//! Owners of applied objects: an AppliedManifestWork owns the objects that are deleted with its work.

use serde_json::{Value, json};

use super::{
    applied_manifest_work::{APPLIED_MANIFEST_WORKS, AppliedManifestWork},
    objects::{DeleteOption, ResourceIdentifier, uid},
};

const KIND: &str = "AppliedManifestWork";

/// Returns whether the object is deleted with the work (ocm `helpers.go:460-501`).
pub(crate) fn goes_with_work(option: Option<&DeleteOption>, object: &ResourceIdentifier) -> bool {
    match option {
        Some(option) if option.propagation_policy == "Orphan" => false,
        Some(option) if option.propagation_policy == "SelectivelyOrphan" => {
            !option.selectively_orphans.orphaning_rules.contains(object)
        }
        _ => true,
    }
}

/// Returns the ownerReferences of `live` with or without `owner`, and without an earlier record of the same name.
pub(crate) fn with_owner(live: &Value, owner: &AppliedManifestWork, owned: bool) -> Vec<Value> {
    let name = owner.metadata.name.as_deref().unwrap_or_default();
    let ours = |reference: &Value| is_record(reference) && reference["name"] == name;
    let mut references = list(live);
    if !owned {
        references.retain(|reference| !ours(reference));
    } else if !is_owned_by(live, uid(&owner.metadata)) {
        references.retain(|reference| !ours(reference));
        references.push(json!({
            "apiVersion": APPLIED_MANIFEST_WORKS.api_version(),
            "kind": KIND,
            "name": name,
            "uid": uid(&owner.metadata),
        }));
    }
    references
}

pub(crate) fn is_owned_by(live: &Value, owner: &str) -> bool {
    list(live).iter().any(|reference| is_record(reference) && reference["uid"] == owner)
}

/// Returns whether another work, of any hub, applies the object, too.
pub(crate) fn is_shared(live: &Value, owner: &str) -> bool {
    list(live).iter().any(|reference| is_record(reference) && reference["uid"] != owner)
}

fn list(live: &Value) -> Vec<Value> {
    live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

/// Returns whether the owner is a work's record.
pub(crate) fn is_record(reference: &Value) -> bool {
    let group = reference["apiVersion"].as_str().and_then(|version| version.split('/').next());
    reference["kind"] == KIND && group == Some(&APPLIED_MANIFEST_WORKS.group)
}

#[cfg(test)]
mod tests {
    use apiclient::api::parse;

    use super::*;
    use crate::work::objects::SelectivelyOrphan;

    #[test]
    fn orphans_are_all_or_those_of_an_exact_rule() {
        let object = ResourceIdentifier { name: "a".into(), ..Default::default() };
        let option = |policy: &str, rule: &str| DeleteOption {
            propagation_policy: policy.into(),
            selectively_orphans: SelectivelyOrphan {
                orphaning_rules: vec![ResourceIdentifier {
                    name: rule.into(),
                    ..Default::default()
                }],
            },
        };
        for (policy, rule, goes) in [
            ("Foreground", "a", true),
            ("Orphan", "b", false),
            ("SelectivelyOrphan", "a", false),
            ("SelectivelyOrphan", "*", true),
        ] {
            assert_eq!(goes_with_work(Some(&option(policy, rule)), &object), goes, "{policy}");
        }
        assert!(goes_with_work(None, &object));
    }

    #[test]
    fn owners_of_others_stay_and_a_former_record_goes() {
        let owner: AppliedManifestWork =
            parse(json!({"metadata": {"name": "r", "uid": "new"}})).unwrap();
        let record = |name: &str, uid: &str| {
            let version = APPLIED_MANIFEST_WORKS.api_version();
            json!({"apiVersion": version, "kind": KIND, "name": name, "uid": uid})
        };
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "r", "uid": "c"});
        let of = |references: Vec<Value>| json!({"metadata": {"ownerReferences": references}});
        let live = of(vec![other.clone(), record("r", "old"), record("s", "s")]);
        assert!(is_shared(&live, "new") && !is_owned_by(&live, "new"));
        let owned = with_owner(&live, &owner, true);
        assert_eq!(owned, [other.clone(), record("s", "s"), record("r", "new")]);
        assert_eq!(with_owner(&of(owned.clone()), &owner, true), owned, "it is there already");
        assert_eq!(with_owner(&of(owned), &owner, false), [other, record("s", "s")]);
    }
}
