//! `make chaos`: random operations on both sides of remote-sync's copies, its servers and itself, against a model.
//! `SEED` and `OPERATIONS` repeat a run. `CONFIG=push,large` replaces the seed's features. `SECONDS` continues with the
//! next seeds for that long.

use std::{
    process::exit,
    time::{Duration, Instant},
};

use suite::setting;
use tools::{
    chaos::{
        Run, Summary,
        config::{self, draw, named},
    },
    measure::grouped,
    seed,
    term::{bold, green, red},
};

fn main() {
    let start = Instant::now();
    let seconds = Duration::from_secs(setting("SECONDS").unwrap_or(0));
    let mut seed = seed();
    loop {
        run(seed);
        if start.elapsed() >= seconds {
            return;
        }
        seed += 1;
    }
}

fn run(seed: u64) {
    let operations = setting("OPERATIONS").unwrap_or(10_000);
    let config = setting::<String>("CONFIG").map_or_else(|| draw(seed), |text| named(&text));
    let features = Some(config::words(&config)).filter(|words| !words.is_empty());
    let features = features.unwrap_or_else(|| "none".to_owned());
    println!("{}", bold(format!("Chaos: {} operations", grouped(operations as u64))));
    println!("SEED={seed} OPERATIONS={operations} CONFIG={features}\n");
    let start = Instant::now();
    let tell = |summary: &Summary| {
        if summary.operations.is_multiple_of(1000) {
            println!("{:4} s  {}", start.elapsed().as_secs(), words(summary));
        }
    };
    match (Run { seed, operations, config }).run(tell) {
        Ok(summary) => {
            let seconds = start.elapsed().as_secs();
            println!("{} {} in {seconds} s\n", green("all as the model has it:"), words(&summary));
        }
        Err(report) => {
            println!(
                "{} {report}\n\nagain with SEED={seed} OPERATIONS={operations} CONFIG={features}",
                red("failed:")
            );
            exit(1);
        }
    }
}

fn words(summary: &Summary) -> String {
    let Summary { operations, done, writes, kills, rests } = *summary;
    let count = |number: usize| grouped(number as u64);
    format!(
        "{} operations ({} done), {} writes by the program, killed {kills} times, at rest {rests} times",
        count(operations),
        count(done),
        count(writes)
    )
}
