//! Figures compared with their limits, one per line.

use std::fs;

use suite::sidecar::{Sidecar, program};
use tools::{
    figures,
    measure::{self, grouped, median},
    term::{self, bold, green, red},
};

/// The limit of an idle program, in KiB.
pub(crate) const RESIDENT: f64 = 4096.0;

#[derive(Default)]
pub(crate) struct Table {
    program: String,
    /// As Markdown, for docs/figures.md.
    text: String,
    rows: usize,
    missed: Vec<String>,
}

impl Table {
    pub(crate) fn row(&mut self, figure: &str, limit: &str, measured: &str, ok: bool) {
        if !ok {
            self.missed.push(format!("{}: {}, {measured}", self.program, figure.trim()));
        }
        let verdict = if ok { green("ok") } else { red("MISSED") };
        self.print(figure, limit, measured, &verdict);
    }

    /// Starts the table of another program.
    pub(crate) fn program(&mut self, name: &str, most_bytes: f64) {
        self.program = name.to_owned();
        self.text += &format!("\n### {name}\n\n| | measured | limit |\n|---|---:|---:|\n");
        println!("\n  {}", bold(name));
        println!("  {}", bold(format!("{:40}{:>18}{:>18}", "figure", "limit", "measured")));
        let bytes = fs::metadata(program(name)).expect("the program").len();
        self.at_most("binary", most_bytes, bytes as f64, "bytes");
    }

    fn print(&mut self, figure: &str, limit: &str, measured: &str, verdict: &str) {
        self.rows += 1;
        self.text += &format!("| {} | {measured} | {limit} |\n", figure.replace("  ", "… "));
        println!("  {figure:40}{limit:>18}{measured:>18}  {verdict}");
    }

    pub(crate) fn at_most(&mut self, figure: &str, limit: f64, measured: f64, unit: &str) {
        let shown = |number: f64| {
            let digits = if number < 100.0 && number.fract() != 0.0 { 1 } else { 0 };
            let number =
                if number < 1000.0 { format!("{number:.digits$}") } else { grouped(number as u64) };
            format!("{number} {unit}").trim_end().to_owned()
        };
        self.row(figure, &format!("≤ {}", shown(limit)), &shown(measured), measured <= limit);
    }

    /// Measures several processes of a program at rest; `most` has the limits of anonymous KiB, and of threads.
    pub(crate) fn at_rest<'a>(
        &mut self,
        all: impl Iterator<Item = &'a Sidecar> + Clone,
        most: [f64; 2],
    ) {
        let median_of = |field| median(all.clone().map(|one| one.memory(field) as f64).collect());
        self.at_most("resident memory", RESIDENT, median_of("VmRSS"), "KiB");
        self.at_most("  of it anonymous", most[0], median_of("RssAnon"), "KiB");
        self.at_most("threads", most[1], median_of("Threads"), "");
    }

    /// Checks that each ends within the promised second, without the tests' tolerance. Returns what they ran on.
    pub(crate) fn ends<Ground>(&mut self, all: Vec<(Ground, Sidecar)>) -> Vec<Ground> {
        let mut longest: f64 = 0.0;
        let end = |(ground, mut one): (Ground, Sidecar)| {
            let (code, time) = measure::terminate(&mut one);
            assert_eq!(code, Some(0), "{}", one.log());
            longest = longest.max(time.as_secs_f64() * 1000.0);
            ground
        };
        let grounds = all.into_iter().map(end).collect();
        self.at_most("SIGTERM to its end", 1000.0, longest, "ms");
        grounds
    }

    /// Publishes the figures if all were measured, and fails if one misses its limit.
    pub(crate) fn end(&self, quick: bool) {
        println!();
        // Includes the figures that miss their limits.
        if !quick {
            let when = format!("{}, {}.\n", figures::today(), measure::machine());
            figures::publish("budget", &(when + &self.text + "\n"));
        }
        let missed = &self.missed;
        assert!(
            missed.is_empty(),
            "{} of {} figures miss their limits:\n  {}",
            missed.len(),
            self.rows,
            missed.join("\n  ")
        );
        println!("{} figures are within their limits.", self.rows);
    }
}

pub(crate) fn note(text: &str) {
    println!("  {}", term::dim(format!("  {text}")));
}
