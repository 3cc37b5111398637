//! The rights of the manifest, by the audit log of the real control plane after the other tests: each is used,
//! and none is missing.

use std::collections::BTreeSet;

use serde_json::Value;
use suite::{
    audit::{is_of_account, requests},
    dumper::{SECRET, manifest},
};

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn rights_of_the_manifest_are_used_and_suffice() {
    let requests = requests("managed", |event| is_of_account(event, "my-agent"));
    let mut used = BTreeSet::new();
    for event in &requests {
        let object = &event["objectRef"];
        if object["name"] != SECRET {
            // A scenario names this Secret, to be refused.
            assert_eq!((&object["name"], &event["verb"]), (&"another".into(), &"get".into()));
            continue;
        }
        assert_eq!(
            (&object["resource"], &object["subresource"]),
            (&"secrets".into(), &Value::Null)
        );
        assert_ne!(event["responseStatus"]["code"], 403, "{event}");
        used.insert(event["verb"].as_str().unwrap_or_default().to_owned());
    }
    let role = manifest("role");
    let granted = role["rules"][0]["verbs"].as_array().into_iter().flatten();
    let granted: BTreeSet<_> = granted.filter_map(|verb| Some(verb.as_str()?.to_owned())).collect();
    println!("{} rights, {} requests", granted.len(), requests.len());
    assert_eq!(used, granted);
}
