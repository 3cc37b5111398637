//! Random operations on both sides, the servers and the program, against a model; `make chaos` runs more of
//! them.

use std::collections::BTreeSet;

use suite::{
    chaos::Run,
    needs::{Need, needs},
};

#[track_caller]
fn as_the_model_has_it(seed: u64, compat: bool) {
    if !needs(Need::Embedded, "servers are disturbed") {
        return;
    }
    let run = Run { seed, operations: 600, compat, pairs: BTreeSet::new() };
    match run.run_and_shrink(|_| {}) {
        Ok(summary) => println!("{summary:?}"),
        Err(report) => panic!("SEED={seed}, compat: {compat}: {report}"),
    }
}

#[test]
fn chaos_ends_as_the_model_has_it() {
    as_the_model_has_it(20_261_121, false);
}

#[test]
fn chaos_ends_as_the_model_has_it_compat() {
    as_the_model_has_it(20_261_122, true);
}
