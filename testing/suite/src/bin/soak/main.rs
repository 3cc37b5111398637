//! `make soak`: 100,000 renewals with 5 % random faults, and what must hold through all of them: by single
//! processes, and by many of them. `SEED`, `RENEWALS` and `PROCESSES` change what they name, `PART=lives` or
//! `PART=fleet` leaves the other part out.

mod canary;
mod faults;
mod fleet;
mod life;
mod verdict;

use suite::{
    dice::{self, Dice},
    setting, term,
};

fn main() {
    term::fail_in_a_sentence();
    let (seed, renewals) = (dice::seed(), setting("RENEWALS").unwrap_or(100_000));
    let part: Option<String> = setting("PART");
    println!("SEED={seed} RENEWALS={renewals}\n");
    let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let wanted = |name| part.as_ref().is_none_or(|part| part == name);
    let lives = !wanted("lives") || life::run(renewals, &mut dice);
    let fleet = !wanted("fleet") || fleet::run(renewals, dice);
    assert!(lives && fleet, "an invariant was broken; again with SEED={seed}");
    println!("All invariants held.");
}
