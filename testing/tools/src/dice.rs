//! Random numbers that can be repeated: the same seed, the same run.

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

/// xorshift64: enough to roll dice, the same on every machine.
pub struct Dice(u64);

impl Dice {
    /// A seed of 0 would roll nothing but zeros.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.roll() >> 11) % limit
    }

    /// `true` in one of so many cases.
    pub fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }
}
