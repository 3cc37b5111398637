//! Model of a certificate: every order of requests, crashes, lost answers, steps of others between two calls, answers
//! of the hub and clock jumps, up to a number of troubles. `Certificate::sync`, `validate` and `identity::resolve` are
//! the shipped code; `world` has both clusters, and `calls` is the certificate's `Io` for them.
//!
//! `MODEL=whole` (as in `make model`) allows for more rotations than `cargo test`.

mod calls;
pub(crate) mod fixtures;
mod process;
mod world;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    env,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::error::Result as SyncResult;
use explorer::{Explored, Model, Step, explore};
use kubeconfig::secret::Data;

use self::world::{Credential, Csr, World};
use super::{
    Certificate, authority,
    csr::CertificateRequest,
    io::CertificateContext,
    validate::{Need, Validation},
};
use crate::identity::AgentNames;

/// The limits of the exploration, and the code under test.
struct Registration {
    /// `Certificate::sync`, or a broken one, which must not pass.
    sync: Sync,
    /// Maximum number of troubles on one path.
    troubles: u8,
    /// Maximum number of certificates that become due on one path.
    rotations: u8,
    /// The start of the world's time.
    base: Instant,
    fixtures: RefCell<Fixtures>,
}

type Sync = fn(&mut Certificate, &mut CertificateContext<'_>) -> SyncResult<Instant>;

/// What a validation depends on: the credential, the names and the clocks.
type Validated = (Option<Credential>, u8, Duration, i64, i64, bool);

/// Cache of what takes time to create.
#[derive(Default)]
struct Fixtures {
    names: Vec<AgentNames>,
    /// By key and names.
    requests: HashMap<(u8, u8), CertificateRequest>,
    /// Chains by key, names and the time of issue.
    certificates: HashMap<(u8, u8, Duration), Vec<u8>>,
    csrs: HashMap<(u8, Csr), serde_json::Value>,
    validations: HashMap<Validated, Rc<(Data, Validation)>>,
}

impl Registration {
    /// Returns the time by the hub, which signs.
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
        let (troubles, rotations) = (self.troubles, self.rotations);
        vec![World { troubles, rotations, ..World::default() }]
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
        world.settled()
    }
}

fn check(sync: Sync, troubles: u8, rotations: u8) -> Explored {
    let base = Instant::now() + Duration::from_secs(1_000_000);
    let fixtures = RefCell::default();
    explore(&Registration { sync, troubles, rotations, base, fixtures })
}

#[test]
fn every_way_keeps_one_csr_one_name_and_every_certificate() {
    let whole = env::var("MODEL").is_ok_and(|part| part == "whole");
    let (troubles, rotations) = if whole { (2, 2) } else { (2, 1) };
    let explored = check(Certificate::sync, troubles, rotations);
    println!("certificate, {troubles} troubles, {rotations} rotations: {explored}");
    if let Some(violation) = explored.violation {
        panic!("{violation}");
    }
    assert!(explored.states > 1_000, "{explored}");
}

#[test]
fn every_broken_rule_is_found_out() {
    let table: [(&str, Sync, &str); 2] = [
        (
            "gives up a CSR that waits",
            |certificate, context| {
                certificate.ended |= certificate.waits_for().is_some();
                certificate.sync(context)
            },
            "its key is given up",
        ),
        (
            "never deletes what has served",
            |certificate, context| match context.need {
                Need::Nothing(left) => Ok(context.now + *left),
                _ => certificate.sync(context),
            },
            "has served",
        ),
    ];
    for (name, sync, what) in table {
        let violation = check(sync, 0, 0).violation;
        let violation = violation.unwrap_or_else(|| panic!("a process that {name} passes"));
        println!("{name}: {} in {} steps", violation.what, violation.trace.len());
        assert!(violation.what.contains(what), "{name}: {violation}");
    }
}
