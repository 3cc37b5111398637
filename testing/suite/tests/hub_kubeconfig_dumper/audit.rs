//! The dumper in the audit log of the real control plane, after the other scenarios: each right of the
//! manifests is used, and none is missing.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use serde_json::Value;
use suite::dumper::{SECRET, manifest};

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn every_granted_right_is_used_and_none_is_missing() {
    let directory = env::var("E2E_DIR").expect("testing/controlplane/run.sh sets E2E_DIR");
    let path = PathBuf::from(directory).join("managed/audit.log");
    let log = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = events.filter(|event| {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        user.starts_with("system:serviceaccount:") && user.ends_with(":my-agent")
    });
    let (mut used, mut requests) = (BTreeSet::new(), 0);
    for event in ours {
        requests += 1;
        let object = &event["objectRef"];
        if object["name"] != SECRET {
            // The one that a scenario names to be refused.
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
    println!("{} rights, {requests} requests", granted.len());
    assert_eq!(used, granted);
}
