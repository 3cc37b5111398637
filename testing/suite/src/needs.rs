//! Requirements of tests that not every machine meets. If one is missing, the test is skipped, in whole or in part, and
//! reports it; with `NO_SKIPS`, a missing tool fails the test.

use std::{
    env,
    io::{self, Write},
    process::{Command, Stdio},
    thread,
};

use crate::real;

/// A requirement of a test.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// The embedded API server, which injects faults and records requests.
    Embedded,
    /// The real control plane.
    Real,
    /// A working command: not every user may create namespaces, or mount in them.
    Command(&'a [&'a str]),
    /// A working tool that can be installed, as in .ci/run.
    Tool(&'a [&'a str]),
    /// Another requirement that the test has checked.
    Found(bool),
}

/// Returns whether the need is met, so that the test continues; otherwise reports that the test is skipped, and `why`.
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

/// Writes to stderr, not by a macro, whose output the test runner captures.
fn say(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

fn works(words: &[&str]) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}
