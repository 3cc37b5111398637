//! `make budget`: what the programs cost, compared with their promised limits. `budget quick` measures files, and each
//! program at rest and at its end; the full run adds load for minutes.

mod bootstrapper;
mod capacity;
mod dumper;
mod elsewhere;
mod lease;
mod sync;
mod table;
mod work;

use std::env;

use suite::cluster::Cluster;
use tools::{
    measure,
    term::{self, bold},
};

use lease::Fleet;
use table::Table;

/// The number of processes that are measured side by side; the median counts.
const RUNS: usize = 5;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let quick = match words[..] {
        [] => false,
        ["quick"] => true,
        _ => panic!("budget [quick]"),
    };
    term::fail_in_a_sentence();
    println!("{}\n{}", bold("What one of each program costs"), measure::machine());
    let mut table = Table::default();
    let (hub, managed) = (Cluster::embedded("hub"), Cluster::embedded("managed"));
    table.program("addon-lease-controller", 2_100_000.0);
    let fleet = Fleet::start(&hub, &managed);
    fleet.at_rest(&mut table);
    if !quick {
        fleet.at_work(&mut table);
    }
    fleet.end(&mut table);
    table.program("csr-bootstrapper", 2_600_000.0);
    let members = table.bootstrapper(&managed);
    if quick {
        table.ends(members);
    } else {
        table.addons(members);
        table.elsewhere(&managed);
        table.capacity();
    }
    table.program("hub-kubeconfig-dumper", 2_100_000.0);
    table.dumper(&managed);
    table.program("klusterlet-agent", 3_200_000.0);
    table.work();
    table.program("remote-sync", 2_600_000.0);
    table.sync(&hub, &managed);
    if !quick {
        table.copies(&hub, &managed);
    }
    table.end(quick);
}
