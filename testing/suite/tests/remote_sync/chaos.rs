//! Random operations on both sides, the servers and the program, against a model; `make chaos` runs more of
//! them.

use std::collections::BTreeSet;

use suite::{
    chaos::{Run, config::named},
    needs::{Need, needs},
};

#[track_caller]
fn as_the_model_has_it(seed: u64, compat: bool, features: &str) {
    if !needs(Need::Embedded, "servers are disturbed") {
        return;
    }
    let run =
        Run { seed, operations: 600, compat, config: named(features), pairs: BTreeSet::new() };
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
