//! What pairs in sync take, and how soon a program is back that has them.

use std::time::{Duration, Instant};

use suite::{
    pause,
    sync::{
        Stage,
        load::{self, Room},
    },
};
use tools::measure::grouped;

use crate::{
    stage,
    table::{self, row},
};

const PAIRS: [usize; 3] = [0, 1_000, 10_000];
/// Memory is settled after this.
const SETTLING: u64 = 10_000;
/// For all pairs to be in sync: on a slow machine too, as this only ends a run that hangs.
const LIMIT: Duration = Duration::from_secs(300);
const FLAGS: [&str; 5] = ["-qps", "0", "-concurrent-reconciles", "16", "-leader-election=false"];

pub(crate) fn measure() -> bool {
    let stage = stage();
    let mut rows = vec![head()];
    let (mut there, mut base) = (0, 0);
    for pairs in PAIRS {
        let maker = stage.start_deployed(&FLAGS);
        stage.put_sources(0, there..pairs);
        load::wait_for_pairs(&maker, pairs, LIMIT);
        there = pairs;
        drop(maker);
        pause(500);
        let restart = restart(&stage, pairs);
        if pairs == 0 {
            base = restart.room.resident;
        }
        rows.push(restart.row(pairs, base));
    }
    table::print(&rows);
    println!("Sources of {} bytes as JSON, targets about as large.\n", stage.bytes(0, 0));
    true
}

/// What it took to be back with so many pairs, and what they take.
struct Restart {
    ready: Duration,
    in_step: Duration,
    room: Room,
    requests: usize,
    writes: usize,
}

fn restart(stage: &Stage, pairs: usize) -> Restart {
    stage.forget_requests();
    let begun = Instant::now();
    let sidecar = stage.start_deployed(&FLAGS);
    while sidecar.ask("/readyz").0 != 200 {
        assert!(begun.elapsed() < LIMIT, "{}", sidecar.log());
        pause(2);
    }
    let ready = begun.elapsed();
    load::wait_for_pairs(&sidecar, pairs, LIMIT);
    let in_step = begun.elapsed();
    pause(SETTLING);
    let (room, (requests, writes)) = (Room::of(&sidecar), stage.counted());
    Restart { ready, in_step, room, requests, writes }
}

fn head() -> Vec<String> {
    row([
        "pairs in sync",
        "RSS MiB",
        "anonymous",
        "peak",
        "bytes each",
        "threads",
        "restart: ready s",
        "in sync s",
        "requests",
        "writes",
    ])
}

impl Restart {
    /// `base` is what is resident without any pairs.
    fn row(&self, pairs: usize, base: u64) -> Vec<String> {
        let Self { ready, in_step, room, requests, writes } = self;
        let each = room.resident.saturating_sub(base) * 1024 / pairs.max(1) as u64;
        let mib = |kib: u64| format!("{:.1}", kib as f64 / 1024.0);
        vec![
            grouped(pairs as u64),
            mib(room.resident),
            mib(room.anonymous),
            mib(room.peak),
            each.to_string(),
            room.threads.to_string(),
            format!("{:.2}", ready.as_secs_f64()),
            format!("{:.2}", in_step.as_secs_f64()),
            requests.to_string(),
            writes.to_string(),
        ]
    }
}
