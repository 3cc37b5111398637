//! Command line: a program's own, or upstream's, which names a program of upstream's and its subcommand for agents
//! (ocm `cmd/registration/main.go`).

use std::{ffi::OsString, path::Path};

const AGENT: &str = "agent";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program of upstream's that it names.
    pub program: Option<&'static str>,
    pub is_agent: bool,
}

impl Command {
    /// Splits a command line into this and its flags; `programs` are upstream's.
    ///
    /// # Errors
    /// One sentence about another subcommand of upstream's program, in the second place.
    pub fn split(
        words: impl IntoIterator<Item = OsString>,
        programs: &[&'static str],
    ) -> (Self, Result<Vec<OsString>, String>) {
        let upstream = |word: &OsString| {
            let name = Path::new(word).file_name()?;
            programs.iter().copied().find(|program| name == *program)
        };
        let mut words = words.into_iter().peekable();
        let mut program = words.next().and_then(|word| upstream(&word));
        // With an entry point the whole of upstream's command line comes behind it.
        if let Some(word) = words.next_if(|word| upstream(word).is_some()) {
            program = upstream(&word);
        }
        let is_agent = words.next_if(|word| word == AGENT).is_some();
        let words: Vec<_> = words.collect();
        let asks = |word: &OsString| {
            ["-h", "-help", "--help", "-version", "--version"].iter().any(|flag| word == flag)
        };
        let refused = match (program, words.first()) {
            (Some(program), word) if !is_agent && !word.is_some_and(asks) => {
                let got = word.map_or_else(|| "none".to_owned(), |word| format!("{word:?}"));
                Err(format!("the subcommand of {program} must be {AGENT}, got {got}"))
            }
            _ => Ok(()),
        };
        (Self { program, is_agent }, refused.map(|()| words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_upstreams_or_flags_alone() {
        let programs = ["registration"];
        for (line, program, is_agent, flags) in [
            ("/registration agent --v=2", Some(programs[0]), true, Ok("--v=2")),
            ("registration agent --v=2", Some(programs[0]), true, Ok("--v=2")),
            ("/bin/csr /registration agent --v=2", Some(programs[0]), true, Ok("--v=2")),
            ("/bin/csr registration agent", Some(programs[0]), true, Ok("")),
            ("csr agent --v=2", None, true, Ok("--v=2")),
            ("csr -v 2", None, false, Ok("-v 2")),
            ("csr", None, false, Ok("")),
            // A flag's value does not count as a subcommand.
            ("csr -cluster-name agent", None, false, Ok("-cluster-name agent")),
            // Text is printed.
            ("/registration -h", Some(programs[0]), false, Ok("-h")),
            ("/registration --version", Some(programs[0]), false, Ok("--version")),
            // Upstream's program also has the hub's side.
            ("/registration controller --v=2", Some(programs[0]), false, Err("\"controller\"")),
            ("csr registration --v=2", Some(programs[0]), false, Err("\"--v=2\"")),
            ("/registration", Some(programs[0]), false, Err("none")),
        ] {
            let (command, split) = Command::split(line.split(' ').map(OsString::from), &programs);
            assert_eq!(command, Command { program, is_agent }, "{line}");
            let expected = flags
                .map(|flags| flags.split_whitespace().map(OsString::from).collect::<Vec<_>>())
                .map_err(|got| format!("the subcommand of registration must be agent, got {got}"));
            assert_eq!(split, expected, "{line}");
        }
    }
}
