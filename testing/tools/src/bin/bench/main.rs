//! `make bench`: what remote-sync does in which time and memory, in one run, as Markdown.

mod backlog;
mod echo;
mod fleet;
mod footprint;
mod lag;
mod table;
mod throughput;
mod works;

use std::{process::ExitCode, sync::Arc, time::Instant};

use suite::{
    cluster::Cluster,
    sync::{Setting, Stage, WIDGETS},
};
use tools::{
    figures,
    term::{self, bold},
};

/// A name, and a function that prints the table and returns whether its figures meet their limits.
type Table = (&'static str, fn() -> bool);

/// Tables that need the real control plane are only measured by name.
const ON_REAL_SERVERS: [&str; 3] = ["backlog", "footprint", "works"];
const TABLES: [Table; 6] = [
    ("lag", lag::measure),
    ("throughput", throughput::measure),
    ("fleet", fleet::measure),
    ("backlog", backlog::measure),
    ("footprint", footprint::measure),
    ("works", works::measure),
];

fn main() -> ExitCode {
    term::fail_in_a_sentence();
    let begun = Instant::now();
    println!("{}", bold("remote-sync: one kind, servers on the same machine"));
    println!("{}\n", tools::measure::machine());
    // To select tables: cargo run --bin bench fleet lag.
    let named: Vec<String> = std::env::args().skip(1).collect();
    let mut passed = true;
    match &*named {
        [] => {
            let all = TABLES.iter().filter(|it| !ON_REAL_SERVERS.contains(&it.0));
            all.for_each(|it| passed &= it.1());
            let when = format!("{}, {}.\n\n", figures::today(), tools::measure::machine());
            figures::publish("bench", &(when + &table::PRINTED.lock().expect("lock")));
        }
        names => {
            for name in names {
                let Some((_, measure)) = TABLES.iter().find(|it| it.0 == name) else {
                    let names = TABLES.map(|it| it.0).join(", ");
                    eprintln!("There is no table {name}, but {names}.");
                    return ExitCode::FAILURE;
                };
                passed &= measure();
            }
        }
    }
    println!("All of it took {:.0} s.", begun.elapsed().as_secs_f64());
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns two new servers, and the program's paths to them.
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
