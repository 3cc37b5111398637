//! What the faults have in common: striking only the sidecar, and counting what it did.

use dev_apiserver::{Action, Faults, Request, Rule};
use serde_json::Value;
use suite::{
    eventually,
    scene::{ADDON, Scene, renew_time},
    sidecar::Sidecar,
};

/// What the sidecar says while the hub cannot be had, and when it can again.
pub(crate) const LOST: &str = "is not renewed: ";
pub(crate) const BACK: &str = "is renewed again after";

/// A scene and a sidecar that has renewed its Lease.
pub(crate) fn running(name: &str) -> (Scene, Sidecar) {
    let scene = Scene::new(name);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("is renewed every");
    (scene, sidecar)
}

pub(crate) fn faults(scene: &Scene) -> &Faults {
    scene.hub.server().faults()
}

/// A fault for requests of the sidecar to the hub.
pub(crate) fn rule(scene: &Scene, verb: &str, action: Action) -> Rule {
    Rule::new(action).verb(verb).resource("leases").user(&scene.hub_user())
}

/// The sidecar's requests on the hub so far, as "verb code".
pub(crate) fn sent(scene: &Scene) -> Vec<String> {
    requests(scene).iter().map(|request| format!("{} {}", request.verb, request.code)).collect()
}

pub(crate) fn requests(scene: &Scene) -> Vec<Request> {
    let all = scene.hub.server().requests();
    all.into_iter().filter(|request| request.user == scene.hub_user()).collect()
}

/// The Lease on the hub as it is stored, also while nobody can ask for it.
pub(crate) fn stored(scene: &Scene) -> Option<Value> {
    scene.hub.server().get("coordination.k8s.io/v1", "leases", &scene.cluster, ADDON)
}

pub(crate) fn stored_time(scene: &Scene) -> Option<String> {
    renew_time(stored(scene).as_ref())
}

/// Waits for a renewal that is newer than now, seen in the store.
#[track_caller]
pub(crate) fn wait_for_renewal(scene: &Scene) {
    let before = stored_time(scene);
    eventually("the Lease is renewed", || {
        stored_time(scene).filter(|now| before.as_ref() != Some(now))
    });
}

/// Renewals of the Lease on the hub that failed so far.
pub(crate) fn failures(sidecar: &Sidecar) -> f64 {
    sidecar
        .metric("sidecar_lease_renewals_total{target=\"hub\",result=\"error\"}")
        .expect("the metric is there")
}
