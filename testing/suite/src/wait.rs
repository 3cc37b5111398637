//! Waits for something to happen, and checks that something does not.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Seconds until an expected event counts as missing. After a failure, programs wait for a random time of up to 30 s
/// before they retry. A shorter limit would fail by chance wherever a fault lasted for some seconds.
pub const PATIENCE: u64 = 45;

/// Milliseconds for which tests check that something does not happen: longer than the period, the first backoffs, and
/// the grace of a second that programs are started with.
pub const QUIET: u64 = 2500;

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

/// Does the same within this number of seconds.
#[track_caller]
pub fn within<F: Finding>(seconds: u64, what: &str, mut probe: impl FnMut() -> F) -> F::Found {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = probe().found() {
            return found;
        }
        assert!(Instant::now() < end, "in vain for {seconds} s: {what}");
        pause(20);
    }
}

/// Checks that `holds` stays true for exactly this long, because the next event may already be due.
#[track_caller]
pub fn throughout(milliseconds: u64, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {
        assert!(holds(), "no longer: {what}");
        pause(20);
    }
}

/// Checks that `holds` stays true for [`QUIET`].
#[track_caller]
pub fn stays(what: &str, holds: impl FnMut() -> bool) {
    throughout(QUIET, what, holds);
}

/// Sleeps for this number of milliseconds.
pub fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}
