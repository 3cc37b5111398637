//! Output for people: a timeline, tables, and colors on a terminal.

use std::{
    env,
    fmt::Display,
    fs,
    io::{IsTerminal, Write, stdout},
    panic,
    process::{self, Command},
    thread,
    time::{Duration, Instant},
};

/// Returns whether to use colors (<https://no-color.org>).
fn colours() -> bool {
    stdout().is_terminal() && env::var_os("NO_COLOR").is_none()
}

fn painted(text: impl Display, code: &str) -> String {
    if colours() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
}

pub fn bold(text: impl Display) -> String {
    painted(text, "1")
}

pub fn dim(text: impl Display) -> String {
    painted(text, "2")
}

pub fn green(text: impl Display) -> String {
    painted(text, "32")
}

pub fn red(text: impl Display) -> String {
    painted(text, "1;31")
}

/// The width that every terminal has, in columns.
const COLUMNS: usize = 80;
/// The width of the middle column.
const WIDTH: usize = 32;

/// One line per step: when it began, what happens, and, once done, what was seen.
#[derive(Debug)]
pub struct Timeline {
    start: Instant,
}

impl Timeline {
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// Prints what happens, runs `step`, and prints the result that it returns.
    pub fn step(&self, what: &str, step: impl FnOnce() -> String) {
        let at = format!("{:5.1} s", self.start.elapsed().as_secs_f64());
        let begun = format!("{at}  {what:WIDTH$}  ");
        print!("{}{}", dim(&at), begun[at.len()..].trim_end());
        let _ = stdout().flush();
        let seen = step();
        let said = begun.trim_end().chars().count();
        let padding = begun.chars().count() - said;
        match begun.chars().count() + seen.chars().count() {
            ..=COLUMNS => println!("{:padding$}{}", "", green(seen)),
            _ => println!("\n{:indent$}{}", "", green(seen), indent = at.len() + 2),
        }
    }
}

/// From now on, a panic of the main thread (a time-out) prints one sentence, ends all child processes, and exits with
/// code 1.
pub fn fail_in_a_sentence() {
    panic::set_hook(Box::new(|info| {
        if thread::current().name() != Some("main") {
            return;
        }
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        println!("\n{} {}", red("failed:"), text.unwrap_or("no reason given"));
        end_children();
        process::exit(1);
    }));
}

/// Ends the child processes: an exit drops nothing, so they would continue.
fn end_children() {
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let _ = Command::new("kill").arg(child).status();
        }
    }
}

/// Returns how much later something happened.
pub fn after(time: Duration) -> String {
    format!("{} later", spoken(time))
}

/// Formats a time for people: to 0.1 ms, 1 ms or 0.1 s.
pub fn spoken(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    match milliseconds {
        ..10.0 => format!("{milliseconds:.1} ms"),
        ..1000.0 => format!("{milliseconds:.0} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
