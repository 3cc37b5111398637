//! Output for people: a timeline, tables, colour on a terminal.

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

/// Whether colours make sense (<https://no-color.org>).
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

/// Columns of a terminal that everybody has.
const COLUMNS: usize = 80;
/// Of the middle column.
const WIDTH: usize = 32;

/// One line a step: when it began, what happens, and once it is there what was seen.
#[derive(Debug)]
pub struct Timeline {
    start: Instant,
}

impl Timeline {
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// Says what happens, then does `step`, which gives back what was seen.
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

/// From here on a panic of the main thread (something did not happen in time) is told as one sentence,
/// ends what was started, and gives exit code 1.
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

/// Nothing is dropped where the process just exits, so what runs would go on.
fn end_children() {
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let _ = Command::new("kill").arg(child).status();
        }
    }
}

/// How much later something was.
pub fn after(time: Duration) -> String {
    format!("{} later", spoken(time))
}

/// A time as people read it: to 0.1 ms, 1 ms or 0.1 s.
pub fn spoken(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    match milliseconds {
        ..10.0 => format!("{milliseconds:.1} ms"),
        ..1000.0 => format!("{milliseconds:.0} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
