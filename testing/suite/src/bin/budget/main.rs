//! `make budget`: what the programs cost, against the limits that they promise to keep.

mod bootstrapper;
mod dumper;
mod lease;
mod table;

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode},
    thread,
};

use suite::{
    cluster::Cluster,
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
    println!("{}\n{}", bold("What one of each program costs (about 80 s)"), machine());
    let mut table = Table::default();
    let (hub, managed) = (Cluster::embedded("hub"), Cluster::embedded("managed"));
    table.program("addon-lease-controller");
    let fleet = Fleet::start(&hub, &managed);
    fleet.measure(&mut table);
    drop(fleet);
    table.drift(&hub);
    table.program("csr-bootstrapper");
    table.bootstrapper(&managed);
    table.program("hub-kubeconfig-dumper");
    table.dumper(&managed);
    table.end();
    ExitCode::SUCCESS
}

/// What figures depend on.
fn machine() -> String {
    let rustc = Command::new("rustc").arg("-V").output().ok();
    let rustc = rustc.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, Linux {}, {cpus} CPUs, {}", rustc.trim(), kernel.trim(), env::consts::ARCH)
}
