//! Shared by demos, budget, bench, soak and chaos. The programs are in `src/bin`; their stages are in [`suite`].

pub mod chaos;
pub mod demo;
pub mod figures;
pub mod measure;
pub mod recording;
pub mod term;

use std::time::SystemTime;

use apiclient::time::seconds_time;

/// Returns `SEED`, or else a seed that changes daily.
pub fn seed() -> u64 {
    let today = || {
        let digits = seconds_time(SystemTime::now()).replace('-', "");
        digits[..8].parse().expect("eight digits")
    };
    suite::setting("SEED").unwrap_or_else(today)
}
