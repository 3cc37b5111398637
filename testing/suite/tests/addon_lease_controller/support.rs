//! Helpers of these tests: counting renewals and requests, faults for the sidecar alone, the lines of its log.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use dev_apiserver::{Action, Request, Rule};
use serde_json::Value;
use shared::{
    resource::{LEASES, SECRETS, Target},
    time::parse_micro_time,
};
use suite::{
    Stopwatch,
    cluster::Cluster,
    eventually, pause,
    scene::{ADDON, SECRET, Scene, renew_time},
    sidecar::Sidecar,
    within,
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
    within(15, "the process renews", || renewals(sidecar, target) >= goal);
}

/// The Secret of the scene.
pub fn secret(scene: &Scene) -> Target<'_> {
    SECRETS.object(&scene.namespace, SECRET)
}

/// Measures from outside how regularly a Lease is renewed.
pub struct Rhythm {
    end: Arc<AtomicBool>,
    sampler: JoinHandle<Vec<(SystemTime, Duration)>>,
}

impl Rhythm {
    pub fn of(scene: &Scene) -> Self {
        Self::at(scene.hub.clone(), scene.cluster.clone())
    }

    pub fn of_managed(scene: &Scene) -> Self {
        Self::at(scene.managed.clone(), scene.namespace.clone())
    }

    fn at(cluster: Arc<Cluster>, namespace: String) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let sampler = thread::spawn(move || {
            let mut times: Vec<(SystemTime, Duration)> = Vec::new();
            let watch = Stopwatch::start();
            while !ended.load(SeqCst) {
                let lease = cluster.get(&LEASES.object(&namespace, ADDON));
                let time = renew_time(lease.as_ref()).and_then(|time| parse_micro_time(&time));
                let is_new = |time: &SystemTime| times.last().is_none_or(|last| last.0 != *time);
                if let Some(time) = time.filter(is_new) {
                    times.push((time, watch.waited()));
                }
                pause(100);
            }
            times.push((SystemTime::now(), watch.waited()));
            times
        });
        Self { end, sampler }
    }

    /// The longest time without a renewal, until now, less what a busy machine may add to it.
    pub fn longest_gap(self) -> Duration {
        self.end.store(true, SeqCst);
        let times = self.sampler.join().expect("the samples");
        let gaps = times.windows(2).map(|pair| {
            let gap = pair[1].0.duration_since(pair[0].0).unwrap_or_default();
            gap.saturating_sub(pair[1].1 - pair[0].1)
        });
        gaps.max().unwrap_or_default()
    }
}

// --- lines of the log ---

// Some tests wait for each of them and others rule it out, so that rewording one cannot make the latter vacuous.

/// The hub cannot be used, and can again.
pub(crate) const LOST: &str = "is not renewed: ";
pub(crate) const BACK: &str = "is renewed again after";
/// The pod is not ready; it does not exist.
pub(crate) const STALE: &str = "the Lease goes stale";
pub(crate) const NO_POD: &str = "it does not exist; the Lease goes stale";
/// There is no Secret any more.
pub(crate) const DELETED: &str = "was deleted, renewals stop until it is back";
/// A watch failed.
pub(crate) const BLIND: &str = "keeping its last known state";

// --- the embedded hub ---

/// A scene and a sidecar that has renewed its Lease.
pub(crate) fn running(name: &str) -> (Scene, Sidecar) {
    let scene = Scene::new(name);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("is renewed every");
    (scene, sidecar)
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
    scene.hub.requests_of(&scene.hub_user())
}

/// The Lease on the hub as it is stored, also while the server cannot be reached.
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

/// Starts the sidecar with a file instead of the Secret.
pub fn start_with_file(scene: &Scene, file: &Path) -> Sidecar {
    scene.start_as(|command| {
        // Of a repeated flag the last counts, and an empty one is none.
        command.args(["-hub-kubeconfig-secret=", "-hub-kubeconfig"]).arg(file);
    })
}
