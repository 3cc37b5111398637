//! Text for people: a timeline, tables, colour where a terminal shows it.

use std::{
    env,
    fmt::Display,
    io::{IsTerminal, Write, stdout},
    panic, process, thread,
    time::Instant,
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

/// One line a step: when it began, what happens, and once it is there what was seen.
pub struct Timeline {
    start: Instant,
    width: usize,
}

impl Timeline {
    /// `width` is that of the middle column.
    pub fn new(width: usize) -> Self {
        Self { start: Instant::now(), width }
    }

    /// Says what happens, then does `step`, which gives back what was seen.
    pub fn step(&self, what: &str, step: impl FnOnce() -> String) {
        let at = format!("{:5.1} s", self.start.elapsed().as_secs_f64());
        print!("{}  {what:width$}  ", dim(at), width = self.width);
        let _ = stdout().flush();
        println!("{}", green(step()));
    }
}

/// Runs a program's work; a panic in it (something did not happen in time) is told as one sentence,
/// and the exit code is 1.
pub fn run(work: impl FnOnce() -> bool + Send + 'static) -> ! {
    let name = "work";
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() == Some(name) {
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            let reason = text.unwrap_or("no reason given");
            println!("\n{} {reason}", red("failed:"));
        }
    }));
    let work = thread::Builder::new().name(name.into()).spawn(work).expect("a thread");
    process::exit(i32::from(!work.join().unwrap_or(false)));
}
