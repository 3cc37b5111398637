//! Random operations on both sides, the servers and the program, against a model; `make chaos` runs more of
//! them.

use std::collections::BTreeSet;

use suite::needs::{Need, needs};
use tools::chaos::{Run, config::named};

#[track_caller]
fn as_the_model_has_it(seed: u64, compat: bool, features: &str) {
    if needs(Need::Embedded, "servers are disturbed") {
        run(seed, 600, compat, features);
    }
}

#[track_caller]
fn run(seed: u64, operations: usize, compat: bool, features: &str) {
    let run = Run { seed, operations, compat, config: named(features), pairs: BTreeSet::new() };
    match run.run_and_shrink(|_| {}) {
        Ok(summary) => println!("{summary:?}"),
        Err(report) => panic!("SEED={seed}, compat: {compat}, {features}: {report}"),
    }
}

#[test]
fn chaos_ends_as_the_model_has_it() {
    as_the_model_has_it(20_261_121, false, "none");
}

#[test]
fn chaos_ends_as_the_model_has_it_compat() {
    as_the_model_has_it(20_261_122, true, "none");
}

#[test]
fn chaos_with_all_that_a_run_may_have() {
    let features = "push,selector,large,schemas,clones,secrets,equal";
    as_the_model_has_it(20_261_123, false, features);
}

#[test]
fn chaos_with_more_compat() {
    as_the_model_has_it(20_261_125, true, "push,large,schemas");
}

/// Real servers have no faults but those of the way to them. A namespace takes them tens of seconds to empty.
#[test]
fn chaos_on_real_servers() {
    if needs(Need::Real, "their garbage collector and namespaces have a pace of their own") {
        run(20_261_126, 250, false, "selector,large,secrets");
        run(20_261_127, 250, false, "push,equal,track");
        run(20_261_128, 250, true, "large");
    }
}
