//! Waiting for what has to happen, and watching that something does not.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Seconds after which something that has to happen counts as missing. After a failure the programs wait up to 30 s
/// before they try again, at random: a shorter limit fails by chance wherever a fault lasted for some seconds.
pub const PATIENCE: u64 = 45;

/// Milliseconds for which tests watch that something does not happen: longer than the period, the first waits after
/// failures and the grace of a second with which they start the programs.
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

/// The same, in so many seconds.
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

/// Checks that `holds` stays true for as long as given and no longer, as what comes next may already be under way.
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

/// Sleeps.
pub fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}
