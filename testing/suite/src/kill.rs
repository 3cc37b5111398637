//! Writes at which a process is killed.

use dev_apiserver::{Action, Faults, Rule};

use crate::{eventually, pause, sidecar::Sidecar};

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

/// Runs the agent until `rule` holds a write, and kills it there; the servers then go on without the fault. False where
/// the work was done before it came to that write.
#[track_caller]
pub fn killed(agent: &mut Sidecar, faults: &Faults, rule: u64, is_done: impl Fn() -> bool) -> bool {
    let held = eventually("it is held or done", || {
        // In this order: the write that is held may be the one that makes it done.
        let done = is_done();
        let held = faults.hits(rule) > 0;
        (held || done).then_some(held)
    });
    if held {
        // What was sent takes a moment to be done.
        pause(10);
        agent.kill();
        faults.clear();
    }
    held
}

/// Kills at each write, the nth of each verb, until `killed_at` says that the work was done before it came to that.
/// Its first argument says whether the write is on the hub. Returns how often, the second on the hub.
pub fn at_every_write(killed_at: impl Fn(bool, &str, u32) -> bool) -> [usize; 2] {
    [false, true].map(|on_hub| {
        let killed = |verb| (1..).take_while(|nth| killed_at(on_hub, verb, *nth)).count();
        ["create", "update", "patch", "delete"].into_iter().map(killed).sum()
    })
}
