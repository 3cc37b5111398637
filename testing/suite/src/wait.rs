//! Waiting, and limits that hold on a busy machine as on a quiet one.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Seconds after which something that has to happen eventually counts as missing, on a [`Stopwatch`]. No more than the
/// interval at which the programs recheck everything anyway, so that a change that wakes nobody is noticed.
pub const PATIENCE: u64 = 15;

/// Milliseconds for which tests watch that something does not happen: longer than the period, the first waits after
/// failures and the grace of a second with which they start the programs.
pub const QUIET: u64 = 2500;

/// The time since its start that a program could use: it runs at a quarter of its pace while tasks wait for a
/// processor, and like any clock on a quiet machine.
#[derive(Clone, Copy)]
pub struct Stopwatch {
    start: Instant,
    stalled: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { start: Instant::now(), stalled: stalled() }
    }

    pub fn elapsed(&self) -> Duration {
        let waited = self.waited();
        self.start.elapsed() - waited
    }

    /// How much of the time since its start does not count.
    pub fn waited(&self) -> Duration {
        stalled().saturating_sub(self.stalled).min(self.start.elapsed()).mul_f64(0.75)
    }

    /// Whether that is less than `limit`.
    pub fn is_within(&self, limit: Duration) -> bool {
        self.start.elapsed() < limit || self.elapsed() < limit
    }

    /// Fails the test where that is more than so many seconds.
    #[track_caller]
    pub fn assert_within(&self, seconds: u64, what: &str) {
        let limit = Duration::from_secs(seconds);
        assert!(self.is_within(limit), "{:?}, not {seconds} s: {what}", self.elapsed());
    }
}

/// How long some task of this machine has waited for a processor, since it started (Linux'
/// `Documentation/accounting/psi.rst`); none where that is not counted.
fn stalled() -> Duration {
    let pressure = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let total = pressure.lines().next().and_then(|some| some.rsplit_once("total="));
    Duration::from_micros(total.and_then(|(_, total)| total.parse().ok()).unwrap_or(0))
}

/// The result of a probe: nothing yet, or what was found.
pub trait Finding {
    type Found;

    fn found(self) -> Option<Self::Found>;
}

impl<T> Finding for Option<T> {
    type Found = T;

    fn found(self) -> Self {
        self
    }
}

impl Finding for bool {
    type Found = ();

    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

/// Waits until `probe` finds something; after [`PATIENCE`] fails the test, naming `what`.
#[track_caller]
pub fn eventually<F: Finding>(what: &str, probe: impl FnMut() -> F) -> F::Found {
    within(PATIENCE, what, probe)
}

/// The same, in so many seconds of a [`Stopwatch`].
#[track_caller]
pub fn within<F: Finding>(seconds: u64, what: &str, mut probe: impl FnMut() -> F) -> F::Found {
    let watch = Stopwatch::start();
    loop {
        if let Some(found) = probe().found() {
            return found;
        }
        let limit = Duration::from_secs(seconds);
        assert!(watch.is_within(limit), "in vain for {seconds} s: {what}");
        pause(20);
    }
}

/// Checks that `holds` stays true for as long as given and no longer, as what comes next may already be under way.
#[track_caller]
pub fn throughout(milliseconds: u64, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {
        assert!(holds(), "no longer: {what}");
        pause(20);
    }
}

/// Checks that `holds` stays true for [`QUIET`] of a [`Stopwatch`]: what must never happen has as much time for it on a
/// busy machine as on a quiet one.
#[track_caller]
pub fn stays(what: &str, mut holds: impl FnMut() -> bool) {
    let (watch, limit) = (Stopwatch::start(), Duration::from_millis(QUIET));
    while watch.is_within(limit) {
        assert!(holds(), "no longer: {what}");
        pause(20);
    }
}

/// Sleeps.
pub fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}
