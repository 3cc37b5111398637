//! Random operations on both sides, the servers and the program, against a model; `make chaos` runs more of
//! them.

use std::collections::BTreeSet;

use suite::needs::{Need, needs};
use tools::chaos::{Run, config::named};

#[track_caller]
fn as_the_model_has_it(seed: u64, features: &str) {
    if needs(Need::Embedded, "servers are disturbed") {
        run(seed, 600, features);
    }
}

#[track_caller]
fn run(seed: u64, operations: usize, features: &str) {
    let run = Run { seed, operations, config: named(features), pairs: BTreeSet::new() };
    match run.run_and_shrink(|_| {}) {
        Ok(summary) => println!("{summary:?}"),
        Err(report) => panic!("SEED={seed}, {features}: {report}"),
    }
}

#[test]
fn chaos_ends_as_the_model_has_it() {
    as_the_model_has_it(20_261_121, "none");
}

#[test]
fn chaos_with_all_that_a_run_may_have() {
    let features = "push,large,schemas,clones,secrets,equal";
    as_the_model_has_it(20_261_123, features);
}

/// Real servers have no faults but those of the way to them. A namespace takes them tens of seconds to empty.
#[test]
fn chaos_on_real_servers() {
    if needs(Need::Real, "their garbage collector and namespaces have a pace of their own") {
        run(20_261_126, 250, "large,secrets");
        run(20_261_127, 250, "push,equal,track");
    }
}
