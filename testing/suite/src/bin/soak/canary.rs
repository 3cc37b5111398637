//! When the machine is too busy for anybody: then no process can be blamed.

use std::{
    mem,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use shared::resource::LEASES;
use suite::{cluster::Cluster, pause};

/// A request takes a millisecond or two.
const TOO_SLOW: Duration = Duration::from_millis(200);
/// Milliseconds between two.
const PACE: u64 = 50;
/// As whom it asks.
pub const USER: &str = "admin";

/// Asks the server again and again, as somebody whom no fault strikes but an outage.
#[derive(Clone, Default)]
pub struct Canary(Arc<Mutex<Vec<(Instant, Instant)>>>);

impl Canary {
    pub fn start(cluster: &Arc<Cluster>) -> Self {
        let canary = Self::default();
        let (slow, cluster) = (canary.clone(), cluster.clone());
        thread::spawn(move || {
            loop {
                let begin = Instant::now();
                let _ = cluster.client.get(&LEASES.object("default", "canary"));
                pause(PACE);
                let end = Instant::now();
                if end - begin > TOO_SLOW {
                    slow.0.lock().expect("lock").push((begin, end));
                }
            }
        });
        canary
    }

    /// The slow times since the last look.
    pub fn slow(&self) -> Vec<(Instant, Instant)> {
        mem::take(&mut *self.0.lock().expect("lock"))
    }
}
