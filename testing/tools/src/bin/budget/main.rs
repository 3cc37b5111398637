//! `make budget`: what the programs cost, against the limits that they promise to keep.

mod bootstrapper;
mod capacity;
mod dumper;
mod elsewhere;
mod lease;
mod sync;
mod table;

use std::{env, path::Path, process::ExitCode};

use suite::cluster::Cluster;
use tools::{
    measure,
    term::{self, bold},
};

use lease::Fleet;
use table::Table;

/// Programs of a kind that are measured one beside the other; the median counts.
const RUNS: usize = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, mode, kubeconfig] = &arguments[..]
        && mode == "renew"
    {
        lease::renew_many(Path::new(kubeconfig));
        return ExitCode::SUCCESS;
    }
    term::fail_in_a_sentence();
    println!(
        "{}\n{}",
        bold("What one of each program costs (about 4 minutes)"),
        measure::machine()
    );
    let mut table = Table::default();
    let (hub, managed) = (Cluster::embedded("hub"), Cluster::embedded("managed"));
    table.program("addon-lease-controller", 1_950_000.0);
    let fleet = Fleet::start(&hub, &managed);
    fleet.measure(&mut table);
    drop(fleet);
    table.drift(&hub);
    table.program("csr-bootstrapper", 2_300_000.0);
    table.bootstrapper(&managed);
    table.elsewhere(&managed);
    table.capacity();
    table.program("hub-kubeconfig-dumper", 1_950_000.0);
    table.dumper(&managed);
    table.program("remote-sync", 2_300_000.0);
    table.sync(&hub, &managed);
    table.end();
    ExitCode::SUCCESS
}
