//! What demos, budget, bench, soak and chaos share. The programs are in `src/bin`; the [`suite`] has the stages that
//! they play on.

pub mod chaos;
pub mod demo;
pub mod figures;
pub mod measure;
pub mod recording;
pub mod term;

use std::time::SystemTime;

use apiclient::time::seconds_time;

/// `SEED`, else one of the day: each day another run, and all day the same.
pub fn seed() -> u64 {
    let today = || {
        let digits = seconds_time(SystemTime::now()).replace('-', "");
        digits[..8].parse().expect("eight digits")
    };
    suite::setting("SEED").unwrap_or_else(today)
}
