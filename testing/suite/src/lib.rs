//! What scenarios, faults, demo and budgets stand on: real processes against the embedded API server,
//! or against a real control plane when `SUITE=real`.

pub mod chaos;
pub mod clock;
pub mod cluster;
pub mod dice;
pub mod dumper;
pub mod identity;
pub mod kill;
pub mod manifest;
pub mod measure;
pub mod ocm;
pub mod proxy;
pub mod relay;
pub mod rogue;
pub mod scene;
pub mod sidecar;
pub mod spoke;
pub mod sync;
pub mod term;
pub mod witness;

use std::{
    env,
    fmt::Display,
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

/// Whether the scenarios run on the real control plane.
pub fn real() -> bool {
    env::var("SUITE").is_ok_and(|suite| suite == "real")
}

/// What the environment says under this name, if anything.
pub fn setting<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text:?}: {e}")))
}

/// Waits until `probe` gives something; fails the test, naming `what`, after 15 s.
#[track_caller]
pub fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(15, what, probe)
}

/// The same, in so many seconds.
#[track_caller]
pub fn within<T>(seconds: u64, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain for {seconds} s: {what}");
        pause(20);
    }
}

/// Checks that `holds` stays true for as long as given.
#[track_caller]
pub fn throughout(milliseconds: u64, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {
        assert!(holds(), "no longer: {what}");
        pause(20);
    }
}

/// Sleeps.
pub fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}
