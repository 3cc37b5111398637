//! Writes at which a process is killed.

use dev_apiserver::{Action, Faults, Rule};

/// When the process dies.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// The write was sent and never arrives.
    Before,
    /// The write is done, and its answer is not there yet.
    After,
    /// The write was sent and arrives when the next process is at work already.
    Late,
}

/// Lets `nth - 1` writes of this verb pass, of `user` if there is one, and holds the next one; the rule that
/// holds it.
pub fn hold(faults: &Faults, user: Option<&str>, verb: &str, nth: u32, moment: Moment) -> u64 {
    let rule = |action| {
        let rule = Rule::new(action).verb(verb);
        if let Some(user) = user { rule.user(user) } else { rule }
    };
    // It does no harm, and the first rule that strikes is the only one.
    faults.add(rule(Action::HugeHeaders { bytes: 1 }).times(nth - 1));
    match moment {
        Moment::After => faults.add(rule(Action::Stall).times(1)),
        Moment::Before => {
            let held = faults.add(rule(Action::Delay { milliseconds: 3000 }).times(1));
            faults.add(rule(Action::Drop).times(1));
            held
        }
        Moment::Late => faults.add(rule(Action::Delay { milliseconds: 150 }).times(1)),
    }
}

/// Kills at each write, the nth of each verb, until `killed_at` says that the work was done before it came to that.
/// Returns how often.
pub fn at_every_write(killed_at: impl Fn(&str, u32) -> bool) -> usize {
    let killed = |verb| (1..).take_while(|nth| killed_at(verb, *nth)).count();
    ["create", "update", "patch", "delete"].into_iter().map(killed).sum()
}
