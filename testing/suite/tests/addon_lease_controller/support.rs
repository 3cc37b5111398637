//! Helpers of these tests: counts of renewals, the lines of the log, a start with a file.

use std::path::Path;

use apiclient::resource::{SECRETS, Target};
use suite::{
    eventually,
    scene::{SECRET, Scene},
    sidecar::Sidecar,
};

/// How often this process renewed the Lease on `target`, "hub" or "managed".
pub fn renewals(sidecar: &Sidecar, target: &str) -> f64 {
    count(sidecar, target, "success")
}

/// How many of its attempts failed.
pub fn failures(sidecar: &Sidecar, target: &str) -> f64 {
    count(sidecar, target, "error")
}

fn count(sidecar: &Sidecar, target: &str, result: &str) -> f64 {
    let sample = format!("sidecar_lease_renewals_total{{target={target:?},result={result:?}}}");
    sidecar.metric(&sample).unwrap_or_default()
}

/// Waits for `times` more renewals by this process.
#[track_caller]
pub fn renews(sidecar: &Sidecar, target: &str, times: u32) {
    let goal = renewals(sidecar, target) + f64::from(times);
    eventually("the process renews", || renewals(sidecar, target) >= goal);
}

/// The Secret of the scene.
pub fn secret(scene: &Scene) -> Target<'_> {
    SECRETS.object(&scene.namespace, SECRET)
}

// --- lines of the log ---

// Some tests wait for each of them and others rule it out, so that rewording one cannot make the latter vacuous.

/// The hub cannot be used, and can again.
pub(crate) const LOST: &str = "lease renewal failed";
pub(crate) const BACK: &str = "lease renewal recovered";
/// The pod is not ready; it does not exist.
pub(crate) const STALE: &str = "the Lease goes stale";
pub(crate) const NO_POD: &str = "reason=\"it does not exist\"";
/// The Secret was deleted.
pub(crate) const DELETED: &str = "was deleted: renewals stop until it is back";
/// A watch failed.
pub(crate) const BLIND: &str = "keeping the last known state";

// --- the start ---

/// A scene and a sidecar that has renewed its Lease.
pub(crate) fn running(name: &str) -> (Scene, Sidecar) {
    let scene = Scene::new(name);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("lease renewal started");
    (scene, sidecar)
}

/// Starts the sidecar with a file instead of the Secret.
pub fn start_with_file(scene: &Scene, file: &Path) -> Sidecar {
    scene.start_as(|command| {
        // Of a repeated flag the last counts, and an empty one is none.
        command.args(["-hub-kubeconfig-secret=", "-hub-kubeconfig"]).arg(file);
    })
}
