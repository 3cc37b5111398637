//! The manifests allow only the one Secret, and the program uses only that.

use serde_json::json;
use suite::{
    dumper::{SECRET, Stage, manifest},
    needs::{Need, needs},
};

#[test]
fn manifests_grant_the_one_secret_and_nothing_else() {
    let rules = json!([{
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET],
        "verbs": ["get", "list", "watch"],
    }]);
    assert_eq!(manifest("role")["rules"], rules);
    assert_eq!(manifest("rolebinding")["roleRef"]["kind"], "Role");
}

#[test]
fn missing_right_is_named_and_leaves_the_files() {
    if !needs(Need::Embedded, "it takes rights away") {
        return;
    }
    let (stage, data) = Stage::with_secret("revoked");
    let server = stage.cluster.server();
    let watch = server.faults().deny("list", "secrets", &stage.namespace);
    let _ready = stage.start_ready(&[]);
    stage.shows(&data);
    server.faults().remove(watch);
    server.faults().deny("get", "secrets", &stage.namespace);
    let sidecar = stage.start(&[]);
    sidecar.wait_for("get secrets");
    assert_eq!(sidecar.ask("/readyz").0, 503);
    stage.shows(&data);
}
