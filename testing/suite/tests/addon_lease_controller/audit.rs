//! The rights of the manifests, by what the other tests left in the audit logs of the real control plane:
//! `SUITE=real testing/controlplane/run.sh sh -c 'cargo test -p suite --test addon_lease_controller &&
//! cargo test -p suite --test addon_lease_controller -- --ignored'`

use std::collections::BTreeSet;

use serde_json::Value;
use suite::{
    audit::{self, assert_none_is_missing, assert_used, granted, is_in_group, is_of_account},
    scene::{ADDON, manifests},
};

const GROUP: &str = "system:open-cluster-management:cluster:cluster1:addon:my-addon";

/// The requests of the sidecar on "hub" or "managed".
fn requests(cluster: &str) -> Vec<Value> {
    audit::requests(cluster, |event| is_of_account(event, ADDON) || is_in_group(event, GROUP))
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn every_granted_right_is_used() {
    for part in ["hub", "managed"] {
        assert_used(&granted(&manifests(part)), &requests(part));
    }
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn no_right_is_missing_unless_a_scenario_revoked_it() {
    for part in ["hub", "managed"] {
        assert_none_is_missing(&requests(part));
    }
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn the_sidecar_never_deletes_anything() {
    for part in ["hub", "managed"] {
        let verbs: BTreeSet<String> =
            requests(part).iter().filter_map(|e| Some(e["verb"].as_str()?.to_owned())).collect();
        let allowed = ["create", "get", "list", "update", "watch"];
        assert!(verbs.iter().all(|verb| allowed.contains(&verb.as_str())), "{part}: {verbs:?}");
    }
}
