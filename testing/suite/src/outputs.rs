//! The output of a command.

use std::process::{Command, Output, Stdio};

/// Runs a command to its end. Unlike [`Command::output`], it captures the output even if [`bare`](crate::sidecar::bare)
/// discards it.
pub fn run(command: &mut Command) -> Output {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    output.unwrap_or_else(|e| panic!("{command:?}: {e}"))
}
