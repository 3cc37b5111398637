//! Model of an add-on's registration: every order of what its manager does, what the watches bring, requests, crashes, lost
//! and late writes, up to a number of changes and troubles. `plan`, `AddOns`, `AddOn`, `registrations` and `CsrMachine`
//! are the real ones; the controller's loop, the store, the Secrets and the hub are those of `process` and `world`. What
//! a certificate is worth is not looked at: it is one for a key and a subject.
//!
//! `MODEL=whole` (as `make model` has it) allows for more than `cargo test`.

mod process;
mod steps;
mod turn;
mod world;
mod writes;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    env,
    time::{Duration, Instant},
};

use explorer::{Explored, Model, Step, explore};

use self::{
    turn::Planned,
    world::{Places, View, World},
};
use super::plan::{Plan, PlanInputs, plan};

/// What is tried, and the rules that are put to the test.
struct AddOnModel {
    rules: Rules,
    /// Things that the add-on's manager does on one way.
    changes: u8,
    /// Things that may go wrong on one way.
    troubles: u8,
    /// Before the start of all clocks, so that no time is before it.
    base: Instant,
    /// By what the watch shows, and which Secrets are stored.
    plans: RefCell<HashMap<(View, Places<bool>), Planned>>,
}

/// The real rules, or broken ones, which must not pass.
#[derive(Clone, Copy)]
struct Rules {
    plan: fn(&PlanInputs<'_>) -> Plan,
    /// A Secret is stored as kept before anything is done for it.
    stores_first: bool,
    /// A write of the store is rejected where another one came first.
    guards_store: bool,
    /// A new process goes on with the stored request.
    reads_stored: bool,
    /// A request that is in the store, as after a lost answer, is taken in place of another one.
    takes_stored: bool,
    /// A stored request of another subject is no request.
    checks_subject: bool,
    /// A Secret with another cluster's name is left alone.
    checks_owner: bool,
    /// The store forgets a Secret only after that is deleted.
    deletes_first: bool,
    /// A stored request of a former subject is deleted in the end.
    tidies: bool,
}

const REAL: Rules = Rules {
    plan,
    stores_first: true,
    guards_store: true,
    reads_stored: true,
    takes_stored: true,
    checks_subject: true,
    checks_owner: true,
    deletes_first: true,
    tidies: true,
};

impl AddOnModel {
    fn new(rules: Rules, changes: u8, troubles: u8) -> Self {
        let base = Instant::now() + Duration::from_secs(1_000_000);
        Self { rules, changes, troubles, base, plans: RefCell::default() }
    }
}

impl Model for AddOnModel {
    type State = World;
    type Event = Cow<'static, str>;

    fn starts(&self) -> Vec<World> {
        let new = World::new(self.changes, self.troubles);
        vec![new.clone(), new.taken_over()]
    }

    fn steps(&self, world: &World) -> Vec<Step<World, Self::Event>> {
        let mut steps = Vec::new();
        world.calm_steps(&mut steps);
        self.process_steps(world, &mut steps);
        world.changing_steps(&mut steps);
        world.troubled_steps(&mut steps);
        steps
    }

    fn at_rest(&self, world: &World) -> Result<(), String> {
        world.settled()
    }
}

fn check(rules: Rules, changes: u8, troubles: u8) -> Explored {
    explore(&AddOnModel::new(rules, changes, troubles))
}

/// Fails unless the broken rules are found out in this way.
#[track_caller]
fn found_out(rules: Rules, changes: u8, troubles: u8, what: &str) {
    let explored = check(rules, changes, troubles);
    let violation = explored.violation.expect("the broken rules pass");
    println!("{violation}");
    assert!(violation.what.contains(what), "{violation}");
}

#[test]
fn every_way_keeps_one_csr_and_deletes_only_the_unneeded() {
    let whole = env::var("MODEL").is_ok_and(|part| part == "whole");
    let all = if whole { &[(2, 1), (3, 0), (1, 3)][..] } else { &[(1, 2), (2, 0)] };
    for (changes, troubles) in all {
        let explored = check(REAL, *changes, *troubles);
        println!("add-on, {changes} changes, {troubles} troubles: {explored}");
        if let Some(violation) = explored.violation {
            panic!("{violation}");
        }
        assert!(explored.states > 500, "{explored}");
    }
}

// Of each broken rule a real one was right, or somebody might make it so.

/// What is not known counts as gone.
#[test]
fn plan_that_takes_unknown_for_gone_is_found_out() {
    fn hasty(inputs: &PlanInputs<'_>) -> Plan {
        let mut hasty = plan(inputs);
        if inputs.addons.by_name.is_empty() {
            hasty.obsolete = inputs.stored.iter().map(|(secret, _)| secret.clone()).collect();
        }
        hasty
    }
    found_out(Rules { plan: hasty, ..REAL }, 0, 1, "which is needed");
}

#[test]
fn plan_that_gives_up_a_deleting_add_on_is_found_out() {
    fn eager(inputs: &PlanInputs<'_>) -> Plan {
        let mut eager = plan(inputs);
        if inputs.addons.by_name.values().any(|addon| addon.terminating) {
            eager.obsolete = eager.wanted.drain(..).map(|one| one.secret).collect();
        }
        eager
    }
    found_out(Rules { plan: eager, ..REAL }, 1, 0, "which is needed");
}

#[test]
fn process_that_does_not_store_first_is_found_out() {
    found_out(Rules { stores_first: false, ..REAL }, 0, 0, "a store that is wrong");
}

#[test]
fn store_that_takes_any_write_is_found_out() {
    found_out(Rules { guards_store: false, ..REAL }, 0, 2, "two CSRs");
}

#[test]
fn process_that_forgets_the_stored_request_is_harmless() {
    let explored = check(Rules { reads_stored: false, ..REAL }, 0, 1);
    assert!(explored.violation.is_none(), "{}", explored.violation.unwrap());
    found_out(Rules { reads_stored: false, takes_stored: false, ..REAL }, 0, 1, "two CSRs");
}

/// As it was until this model found it.
#[test]
fn process_that_stores_again_after_a_lost_answer_is_found_out() {
    found_out(Rules { takes_stored: false, ..REAL }, 0, 3, "two CSRs");
}

#[test]
fn process_that_ignores_the_subject_is_found_out() {
    found_out(Rules { checks_subject: false, ..REAL }, 1, 1, "a certificate of another subject");
}

#[test]
fn process_that_deletes_by_name_alone_is_found_out() {
    found_out(Rules { checks_owner: false, ..REAL }, 1, 1, "another cluster's");
}

#[test]
fn store_that_forgets_too_early_is_found_out() {
    found_out(Rules { deletes_first: false, ..REAL }, 1, 0, "nobody needs");
}

#[test]
fn process_that_does_not_tidy_up_is_found_out() {
    found_out(Rules { tidies: false, ..REAL }, 2, 0, "a request that has served");
}
