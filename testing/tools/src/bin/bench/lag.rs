//! The time from a change on one side until the other side has it, compared with the server's own delay until it
//! reports the change.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use suite::{
    pause,
    sync::{Place, Stage, WIDGETS, load},
};

use crate::{
    echo::{Echo, What},
    stage,
    table::{self, quantile, row},
};

/// The number of changes whose lag is measured.
const SAMPLES: u64 = 300;
/// The number of pairs that change all the time, under load.
const BUSY: usize = 500;
/// The time between their changes: 100 a second, every other one a status.
const EACH: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(60);
/// What the program may add to the server's own delay, as a median in milliseconds. A busy machine delays some changes;
/// a program that waits delays all of them.
const MOST: f64 = 20.0;

/// Delays in milliseconds, per change.
#[derive(Default)]
struct Lags {
    /// Until the server itself reports it.
    own: Vec<f64>,
    /// Until the other side has it.
    other: Vec<f64>,
    /// The difference of both.
    added: Vec<f64>,
}

pub(crate) fn measure() -> bool {
    let stage = stage();
    stage.put_sources(0, 0..BUSY + 1);
    let sidecar = stage.start_deployed(&["-qps", "0", "-leader-election=false"]);
    load::wait_for_pairs(&sidecar, BUSY + 1, LIMIT);
    let head = ["lag, ms", "P50", "P99", "server's own P50", "P99", "added P50", "P99"];
    let mut rows = vec![row(head)];
    let mut missed = 0;
    for (what, loaded) in
        [(What::Spec, false), (What::Status, false), (What::Spec, true), (What::Status, true)]
    {
        let lags = if loaded { under_load(&stage, what) } else { lags(&stage, what) };
        missed += usize::from(quantile(&lags.added, 0.5) > MOST);
        let name = match what {
            What::Spec => "spec",
            What::Status => "status",
        };
        let ms = |values: &[f64], part| format!("{:.1}", quantile(values, part));
        rows.push(vec![
            if loaded { format!("{name}, 100 other changes a second") } else { name.to_owned() },
            ms(&lags.other, 0.5),
            ms(&lags.other, 0.99),
            ms(&lags.own, 0.5),
            ms(&lags.own, 0.99),
            ms(&lags.added, 0.5),
            ms(&lags.added, 0.99),
        ]);
    }
    table::print(&rows);
    if missed > 0 {
        println!("MISSED: {missed} medians more than {MOST} ms above the server's own.\n");
    }
    missed == 0
}

/// Measures one change after the other, of a pair that nobody else changes.
fn lags(stage: &Stage, what: What) -> Lags {
    let name = load::nth(BUSY);
    let (source, target) = (stage.source(&WIDGETS, &name), stage.target(&WIDGETS, &name));
    let (from, to) = match what {
        What::Spec => (source, target),
        What::Status => (target, source),
    };
    let own = Echo::of(&from.cluster, what);
    let other = Echo::of(&to.cluster, what);
    let key = |place: &Place| {
        format!("{}/{}", place.namespace.as_deref().unwrap_or_default(), place.name)
    };
    let mut lags = Lags::default();
    // Numbers that no earlier run used.
    let first = from.kind.number(&from.read()).max(from.healthy()).unwrap_or(0) + 1;
    for number in first..first + SAMPLES {
        let begun = Instant::now();
        match what {
            What::Spec => from.set_number(number),
            What::Status => from.set_health(number),
        };
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let (told, there) = (own.wait_for(&key(&from), number), other.wait_for(&key(&to), number));
        lags.own.push(ms(told - begun));
        lags.other.push(ms(there - begun));
        lags.added.push(ms(there.saturating_duration_since(told)));
        pause(5 + number % 7);
    }
    lags
}

fn under_load(stage: &Stage, what: What) -> Lags {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            let mut count = 0_u32;
            while !over.load(SeqCst) {
                let index = count as usize / 2 % BUSY;
                match count % 2 {
                    0 => stage.change_specs(0, index..index + 1, u64::from(count) + 1000),
                    _ => stage.change_statuses(0, index..index + 1, u64::from(count)),
                }
                count += 1;
                thread::sleep((EACH * count).saturating_sub(begun.elapsed()));
            }
        });
        let lags = lags(stage, what);
        over.store(true, SeqCst);
        lags
    })
}
