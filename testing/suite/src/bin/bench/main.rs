//! `make bench`: what remote-sync does in how much time and memory, in one run, as Markdown.

mod backlog;
mod echo;
mod fleet;
mod lag;
mod memory;
mod remotes;
mod table;
mod throughput;

use std::{process::ExitCode, sync::Arc, time::Instant};

use suite::{
    cluster::Cluster,
    measure::{binary, grouped},
    sidecar::program,
    sync::{Setting, Stage, WIDGETS},
    term::{self, bold},
};

fn main() -> ExitCode {
    term::fail_in_a_sentence();
    let begun = Instant::now();
    println!("{}", bold("remote-sync: one kind, servers on the same machine"));
    println!("{}", suite::measure::machine());
    let file = binary(&program("remote-sync"));
    println!("Binary: {} bytes; Go: 44 MB.\n", grouped(file.bytes));
    // For one table alone: cargo run --bin bench fleet. The backlog needs the real control plane.
    let only = match std::env::args().nth(1).as_deref() {
        None => None,
        Some("fleet") => Some(fleet::measure as fn()),
        Some("backlog") => Some(backlog::measure as fn()),
        Some(other) => {
            eprintln!("there is no table {other}: fleet and backlog can be had alone");
            return ExitCode::FAILURE;
        }
    };
    if let Some(measure) = only {
        measure();
        return ExitCode::SUCCESS;
    }
    let quick = lag::measure();
    throughput::measure();
    memory::measure();
    let apart = remotes::measure();
    fleet::measure();
    println!("All of it took {:.0} s.", begun.elapsed().as_secs_f64());
    if quick && apart { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Two new servers, and the program's way to them.
fn stage() -> Stage {
    let (hub, own) = (Cluster::embedded("hub"), Cluster::embedded("own"));
    between(own, vec![("hub", hub)])
}

fn between(own: Arc<Cluster>, remotes: Vec<(&str, Arc<Cluster>)>) -> Stage {
    let setting = Setting {
        suffix: "-{cluster}".into(),
        namespace_suffix: "-{cluster}".into(),
        ..Setting::safe(&[&WIDGETS])
    };
    Stage::between(own, remotes, "bench", setting)
}
