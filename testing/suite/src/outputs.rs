//! What a command prints.

use std::process::{Command, Output, Stdio};

/// Runs a command to its end; unlike [`Command::output`] also where [`bare`](crate::sidecar::bare) throws its output
/// away.
pub fn run(command: &mut Command) -> Output {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    output.unwrap_or_else(|e| panic!("{command:?}: {e}"))
}
