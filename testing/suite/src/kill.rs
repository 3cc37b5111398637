//! Kills a process at its writes.

use dev_apiserver::{Action, Faults, Rule};

use crate::{eventually, pause, sidecar::Sidecar};

/// When the process is killed.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// The write was sent, but never arrives.
    Before,
    /// The write is done, but its answer has not arrived yet.
    After,
    /// The write was sent, and arrives after the next process has started.
    Late,
}

/// Lets `nth - 1` writes of this verb pass (of `user`, if any), and holds the next one; returns the rule that holds it.
pub fn hold(faults: &Faults, user: Option<&str>, verb: &str, nth: u32, moment: Moment) -> u64 {
    let rule = |action| {
        let rule = Rule::new(action).verb(verb);
        if let Some(user) = user { rule.user(user) } else { rule }
    };
    // A harmless fault: only the first rule that applies has an effect.
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

/// Runs the agent until `rule` holds a write, and kills it there; the servers then continue without the fault. Returns
/// false if the work was done before that write.
#[track_caller]
pub fn killed(agent: &mut Sidecar, faults: &Faults, rule: u64, is_done: impl Fn() -> bool) -> bool {
    let held = eventually("it is held or done", || {
        // In this order, because the held write may complete the work.
        let done = is_done();
        let held = faults.hits(rule) > 0;
        (held || done).then_some(held)
    });
    if held {
        // A sent request takes a moment to be handled.
        pause(10);
        agent.kill();
        faults.clear();
    }
    held
}

/// Kills at each nth write of each verb, until `killed_at` returns false because the work was done before that write.
/// Its first argument is whether the write is on the hub. Returns the number of kills, the second for the hub.
pub fn at_every_write(killed_at: impl Fn(bool, &str, u32) -> bool) -> [usize; 2] {
    [false, true].map(|on_hub| {
        let killed = |verb| (1..).take_while(|nth| killed_at(on_hub, verb, *nth)).count();
        ["create", "update", "patch", "delete"].into_iter().map(killed).sum()
    })
}
