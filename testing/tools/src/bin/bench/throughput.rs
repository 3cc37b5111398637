//! Objects per second, by workers and by the server's response time.

use std::time::{Duration, Instant};

use dev_apiserver::{Action, Rule};
use suite::{pause, sync::load};

use crate::{
    stage,
    table::{self, row},
};

/// The delay of each answer in ms, the number of workers, and the number of objects that time allows.
const CASES: [(u64, usize, usize); 6] =
    [(0, 1, 1000), (0, 8, 1000), (0, 32, 1000), (50, 1, 60), (50, 8, 400), (50, 32, 1000)];
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn measure() -> bool {
    let head = ["objects a second", "new", "spec", "status", "s for 1,000: new", "spec", "status"];
    let mut rows = vec![row(head)];
    for (delay, workers, objects) in CASES {
        let times = times(delay, workers, objects);
        let each = times.map(|time| objects as f64 / time.as_secs_f64());
        let name = format!("{delay} ms, {workers} workers, {objects} objects");
        let rates = each.iter().map(|rate| format!("{rate:.0}"));
        let seconds = each.iter().map(|rate| format!("{:.1}", 1000.0 / rate));
        rows.push([name].into_iter().chain(rates).chain(seconds).collect());
    }
    table::print(&rows);
    true
}

/// Measures the times for new objects, changed specs and changed statuses.
fn times(delay: u64, workers: usize, objects: usize) -> [Duration; 3] {
    let stage = stage();
    let workers = workers.to_string();
    let flags = ["-qps", "0", "-concurrent-reconciles", &workers, "-leader-election=false"];
    let sidecar = stage.start_deployed(&flags);
    load::wait_for_pairs(&sidecar, 0, LIMIT);
    for side in stage.sides() {
        let late = Action::Delay { milliseconds: delay };
        if delay > 0 {
            side.cluster.faults().add(Rule::new(late));
        }
    }
    let published = "record_generations";
    let done = |what: &str, writes: usize, change: &dyn Fn()| {
        let begun = Instant::now();
        change();
        load::wait_for_writes(&sidecar, what, writes, LIMIT);
        let time = begun.elapsed();
        pause(300);
        stage.forget_requests();
        time
    };
    let times = [
        done(published, objects, &|| stage.put_sources(0, 0..objects)),
        done(published, 2 * objects, &|| stage.change_specs(0, 0..objects, 2)),
        done("update_status", objects, &|| stage.change_statuses(0, 0..objects, 3)),
    ];
    stage.check_pairs(0, 0..objects, 2, 3);
    times
}
