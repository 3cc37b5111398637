//! Needs of tests that not every machine meets. Where one is missing, the test is skipped, in whole or in part, and
//! reports it; with `NO_SKIPS` a missing tool fails the test.

use std::{
    env,
    io::{self, Write},
    process::{Command, Stdio},
    thread,
};

use crate::real;

/// A need of a test.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// The embedded API server, which fails on request and records requests.
    Embedded,
    /// The real control plane.
    Real,
    /// That a command works here: not every user may make namespaces, or mount in them.
    Command(&'a [&'a str]),
    /// The same of a tool that can be installed, as .ci/run does.
    Tool(&'a [&'a str]),
    /// Something else that the test has checked for.
    Found(bool),
}

/// Whether it is there, so that the test goes on; otherwise reports that the test is skipped, and `why`.
#[must_use]
pub fn needs(need: Need<'_>, why: &str) -> bool {
    let (is_there, place) = match need {
        Need::Embedded => (!real(), "needs the embedded server: "),
        Need::Real => (real(), "needs the real control plane: "),
        Need::Command(words) | Need::Tool(words) => (works(words), ""),
        Need::Found(found) => (found, ""),
    };
    if !is_there {
        let must_be_there = matches!(need, Need::Tool(_)) && env::var_os("NO_SKIPS").is_some();
        assert!(!must_be_there, "{need:?} with NO_SKIPS: {why}");
        let test = thread::current().name().unwrap_or_default().to_owned();
        say(&format!("skipped: {test}: {place}{why}\n"));
    }
    is_there
}

/// To stderr, not by a macro: the test runner keeps what those write.
fn say(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

fn works(words: &[&str]) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}
