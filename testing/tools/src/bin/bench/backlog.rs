//! Objects that wait on the hub when the program starts, by bookkeeping, on two real API servers. Their share of the
//! time dominates, so the number of writes matters.

use std::{
    thread,
    time::{Duration, Instant},
};

use suite::{
    cluster::Cluster,
    pause,
    sync::{BUDGETS, Setting, Stage, load},
};

use crate::table::{self, row};

const OBJECTS: usize = 1000;
/// The number of clients that create them.
const CLIENTS: usize = 8;
/// The number of runs per kind of bookkeeping.
const RUNS: usize = 3;
const LIMIT: Duration = Duration::from_secs(120);

/// Flags, and the last write for a new object.
const CASES: [(&[&str], &str); 2] =
    [(&["-track", "source"], "record_generations"), (&["-track", "target"], "create_target")];

pub(crate) fn measure() -> bool {
    let head = ["1,000 objects that wait", "s", "objects a second", "writes: hub", "here"];
    let mut rows = vec![row(head)];
    for (flags, last) in CASES {
        let runs: Vec<_> = (0..RUNS).map(|_| run(flags, last)).collect();
        let mut times: Vec<_> = runs.iter().map(|run| run.0.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let (least, most) = (times[0], times[RUNS - 1]);
        let rate = |time: f64| OBJECTS as f64 / time;
        let (hub, here) = runs[0].1;
        rows.push(vec![
            flags.join(" "),
            format!("{least:.1}-{most:.1}"),
            format!("{:.0}-{:.0}", rate(most), rate(least)),
            hub.to_string(),
            here.to_string(),
        ]);
    }
    table::print(&rows);
    true
}

/// Returns the time from the start until all are copied, and the writes to each side.
fn run(flags: &[&str], last: &str) -> (Duration, (usize, usize)) {
    let (hub, own) = (Cluster::real("hub"), Cluster::real("managed"));
    let setting = Setting::safe(&[&BUDGETS]);
    let stage = Stage::between(own, vec![("hub", hub)], "backlog", setting);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let stage = &stage;
            scope.spawn(move || {
                for index in (client..OBJECTS).step_by(CLIENTS) {
                    stage.source(&BUDGETS, &load::nth(index)).create_number(1);
                }
            });
        }
    });
    // Lets the server settle.
    pause(2000);
    let more = ["-qps", "0", "-concurrent-reconciles", "8", "-leader-election=false"];
    let more = [&more[..], flags].concat();
    let begun = Instant::now();
    let sidecar = stage.start_deployed(&more);
    load::wait_for_writes(&sidecar, last, OBJECTS, LIMIT);
    let time = begun.elapsed();
    pause(1000);
    let writes = stage.writes();
    let of = |side: &str| writes.iter().filter(|one| one.words.starts_with(side)).count();
    (time, (of("hub "), of("local ")))
}
