//! Model of a registration: every order of requests, crashes, lost answers, late events, answers of the hub, foreign
//! writes and clock jumps, up to a number of troubles. `observe`, `CsrMachine` and `identity::resolve` are the real
//! ones; requests and servers are those of `world` and `process`.
//!
//! `MODEL=whole` (as `make model` has it) allows for more troubles than `cargo test`.

mod fixtures;
mod perform;
mod process;
mod world;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    env,
    time::{Duration, Instant, SystemTime},
};

use explorer::{Explored, Model, Step, explore};

use self::world::{Credential, Csr, World};
use super::{
    csr::{CertificateRequest, authority},
    csr_status::CsrFailure,
    machine::{CertificateAction, CsrMachine},
    observe::ObservedCredential,
};
use crate::identity::AgentNames;

/// What is tried, and the rules that are put to the test.
struct Registration {
    rules: Rules,
    /// Things that may go wrong on one way.
    troubles: u8,
    /// Certificates that may become due on one way.
    rotations: u8,
    /// Before the start of all clocks, so that no time is before it.
    base: Instant,
    fixtures: RefCell<Fixtures>,
}

/// The real rules, or broken ones, which must not pass.
#[derive(Clone, Copy)]
struct Rules {
    next: fn(&CsrMachine, &ObservedCredential, Instant) -> CertificateAction,
    /// A new request is stored only where there is none, or in place of the known one.
    stores_with_care: bool,
    /// A new process goes on with the stored request.
    reads_stored: bool,
    /// A new process takes the names that the stored request has.
    reads_names: bool,
}

const REAL: Rules =
    Rules { next: CsrMachine::next, stores_with_care: true, reads_stored: true, reads_names: true };

/// What costs time to make, by what makes it differ.
#[derive(Default)]
struct Fixtures {
    names: Vec<AgentNames>,
    /// By key and names.
    requests: HashMap<(u8, u8), CertificateRequest>,
    /// Chains by key, names and the time of issue.
    certificates: HashMap<(u8, u8, Duration), Vec<u8>>,
    secrets: HashMap<Credential, serde_json::Value>,
    csrs: HashMap<(u8, Csr), serde_json::Value>,
    configs: HashMap<Credential, kubeconfig::config::ClusterConfig>,
    observed: HashMap<u64, std::rc::Rc<ObservedCredential>>,
}

impl Registration {
    fn new(rules: Rules, troubles: u8, rotations: u8) -> Self {
        let base = Instant::now() + Duration::from_secs(1_000_000);
        Self { rules, troubles, rotations, base, fixtures: RefCell::default() }
    }

    /// The time by the hub, which signs.
    fn time(&self, now: Duration) -> SystemTime {
        authority::now() + now
    }

    fn instant(&self, now: Duration) -> Instant {
        self.base + now
    }
}

impl Model for Registration {
    type State = World;
    type Event = Cow<'static, str>;

    fn starts(&self) -> Vec<World> {
        vec![World::new(self.troubles, self.rotations)]
    }

    fn steps(&self, world: &World) -> Vec<Step<World, Self::Event>> {
        let mut steps = Vec::new();
        world.calm_steps(&mut steps);
        self.process_steps(world, &mut steps);
        if world.troubles > 0 {
            world.troubled_steps(&mut steps);
        }
        steps
    }

    fn at_rest(&self, world: &World) -> Result<(), String> {
        let mut prepared = world.clone();
        if world.process.as_ref().is_some_and(|process| process.credential.is_some()) {
            self.prepare(&mut prepared);
        }
        prepared.settled()
    }
}

fn check(rules: Rules, troubles: u8, rotations: u8) -> Explored {
    explore(&Registration::new(rules, troubles, rotations))
}

const LOST: &str = "a certificate is lost";
const TWO: &str = "two CSRs for one certificate";

/// Fails unless the broken rules are found out in one of these ways, within so many steps.
fn found_out(rules: Rules, troubles: u8, what: &[&str], most: usize) {
    let violation = check(rules, troubles, 0).violation.expect("the broken rules pass");
    println!("{violation}");
    assert!(what.iter().any(|what| violation.what.contains(what)), "{violation}");
    assert!(violation.trace.len() <= most, "{violation}");
}

#[test]
fn every_way_keeps_one_csr_one_name_and_every_certificate() {
    let whole = env::var("MODEL").is_ok_and(|part| part == "whole");
    let (troubles, rotations) = if whole { (2, 1) } else { (1, 1) };
    let explored = check(REAL, troubles, rotations);
    println!("registration, {troubles} troubles, {rotations} rotations: {explored}");
    if let Some(violation) = explored.violation {
        panic!("{violation}");
    }
    assert!(explored.states > 1_000, "{explored}");
}

#[test]
fn process_that_stores_over_a_request_is_found_out() {
    let rules = Rules { stores_with_care: false, reads_stored: false, ..REAL };
    found_out(rules, 1, &[TWO, LOST], 16);
}

#[test]
fn process_that_forgets_the_request_still_posts_one_csr() {
    let explored = check(Rules { reads_stored: false, ..REAL }, 1, 0);
    assert!(explored.violation.is_none(), "{}", explored.violation.unwrap());
}

#[test]
fn process_that_makes_up_names_again_is_found_out() {
    let rules = Rules { reads_names: false, ..REAL };
    found_out(rules, 1, &["two names"], 12);
}

#[test]
fn process_that_trusts_a_lagging_watch_is_found_out() {
    fn hasty(
        machine: &CsrMachine,
        observed: &ObservedCredential,
        now: Instant,
    ) -> CertificateAction {
        match machine.next(observed, now) {
            CertificateAction::ConfirmGone => CertificateAction::AbandonCsr(CsrFailure::Replaced),
            action => action,
        }
    }
    found_out(Rules { next: hasty, ..REAL }, 1, &[LOST], 16);
}

#[test]
fn process_that_deletes_before_it_saves_is_found_out() {
    fn tidy(
        machine: &CsrMachine,
        observed: &ObservedCredential,
        now: Instant,
    ) -> CertificateAction {
        match machine.next(observed, now) {
            CertificateAction::SaveCertificate(_) => CertificateAction::DeleteRequest,
            action => action,
        }
    }
    found_out(Rules { next: tidy, ..REAL }, 0, &[LOST], 16);
}

#[test]
fn process_that_waits_for_a_vanished_csr_is_found_out() {
    fn patient(
        machine: &CsrMachine,
        observed: &ObservedCredential,
        now: Instant,
    ) -> CertificateAction {
        match machine.next(observed, now) {
            CertificateAction::ConfirmGone => {
                CertificateAction::Wait(now + Duration::from_secs(3600))
            }
            action => action,
        }
    }
    found_out(Rules { next: patient, ..REAL }, 1, &["it rests without a certificate"], 80);
}
