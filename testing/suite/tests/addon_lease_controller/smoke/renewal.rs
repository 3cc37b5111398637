//! The Lease exists from the start, returns when somebody deletes it, and is shared with other writers.

use apiclient::resource::LEASES;
use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    scene::{ADDON, Scene, renew_time},
};

use crate::support::{failures, renews};

#[test]
fn new_lease_has_a_renew_time() {
    let scene = Scene::new("born");
    let _sidecar = scene.start(&["-lease-duration", "3600"]);
    let lease = eventually("the Lease is there", || scene.lease());
    assert!(renew_time(Some(&lease)).is_some(), "{lease}");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 3600);
    if needs(Need::Embedded, "requests are recorded there") {
        let mut requests = scene.hub.server().requests().into_iter();
        let create = requests.find(|it| it.verb == "create" && it.resource == "leases");
        let body = create.expect("a create").json();
        assert!(renew_time(Some(&body)).is_some(), "{body}");
    }
}

#[test]
fn deleted_lease_is_created_again() {
    let scene = Scene::new("deleted");
    let sidecar = scene.start(&["-lease-target", "both"]);
    renews(&sidecar, "managed", 1);
    scene.wait_for_renewals(1);
    let before = scene.lease().expect("the Lease");
    scene.hub.delete(&scene.hub_lease());
    let target = LEASES.object(&scene.namespace, ADDON);
    scene.managed.delete(&target);
    eventually("both are there", || scene.lease().is_some() && scene.managed_lease().is_some());
    let after = scene.lease().expect("the Lease");
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(renew_time(Some(&after)).is_some());
    assert_eq!((failures(&sidecar, "hub"), failures(&sidecar, "managed")), (0.0, 0.0));
}

#[test]
fn lease_keeps_the_fields_of_other_writers() {
    let scene = Scene::new("foreign");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let theirs = json!({
        "metadata": {"labels": {"team": "blue"}, "annotations": {"a": "b"}},
        "spec": {"holderIdentity": "somebody", "leaseTransitions": 7},
    });
    scene.hub.merge(&scene.hub_lease(), &theirs);
    for theirs in [json!(3600), json!(null)] {
        scene.hub.merge(&scene.hub_lease(), &json!({"spec": {"leaseDurationSeconds": theirs}}));
        eventually("it is 1 again", || {
            scene.lease().is_some_and(|lease| lease["spec"]["leaseDurationSeconds"] == 1)
        });
    }
    scene.wait_for_renewals(2);
    let lease = scene.lease().expect("the Lease");
    assert_eq!(lease["metadata"]["labels"]["team"], "blue");
    assert_eq!(lease["metadata"]["annotations"]["a"], "b");
    assert_eq!(lease["spec"]["holderIdentity"], "somebody");
    assert_eq!(lease["spec"]["leaseTransitions"], 7);
    // Labels that were taken away stay away.
    scene.hub.merge(&scene.hub_lease(), &json!({"metadata": {"labels": null}}));
    scene.wait_for_renewals(2);
    assert!(scene.lease().expect("the Lease")["metadata"]["labels"].is_null());
    assert_eq!(failures(&sidecar, "hub"), 0.0);
}
