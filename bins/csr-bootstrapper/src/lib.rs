//! Registration agent of Open Cluster Management: keeps a cluster's credential for the hub, and sends its heartbeats.

mod addon;
mod agent;
mod bootstrap;
mod capacity;
pub mod certificate;
mod claim;
pub mod clocks;
mod conditions;
mod files;
mod hub_selection;
pub mod identity;
mod managed_namespace;
mod managedcluster;
mod pacing;
mod report;
mod run;
mod settings;
mod state;

use std::{env, ffi::OsString, path::Path, process::ExitCode, sync::Arc};

use apiclient::client::RequestMetrics;
use ring::digest::{SHA256, digest};
use sidecar::{
    flags::{Flag, Flags, Invocation},
    metrics::Metrics,
    runtime,
};

use self::identity::AgentNames;
pub use self::{
    run::run,
    settings::{NAMESPACE, Settings},
};

/// The subcommand of upstream's programs that runs an agent.
const AGENT: &str = "agent";

/// A program that runs the registration agent: csr-bootstrapper, or klusterlet-agent with another duty.
pub struct Program {
    pub name: &'static str,
    /// The Lease of the leader election: upstream's, so that either agent can take over from the other.
    pub lock: &'static str,
    pub duty: Option<Arc<dyn Duty>>,
}

/// A duty besides registration, which uses the files of the credential.
pub trait Duty: Send + Sync {
    /// Runs until the end of the process; `requests` counts requests to the hub.
    fn run(self: Arc<Self>, names: &AgentNames, requests: &RequestMetrics);
    // The duty's part of the endpoint, as in `sidecar::diagnostics::Report`.
    fn healthy(&self) -> Result<(), String>;
    fn ready(&self) -> Result<(), String>;
    fn remarks(&self) -> Vec<String>;
    fn add_to(&self, metrics: &mut Metrics);
}

pub fn main() -> ExitCode {
    let (command, arguments) = Command::split(env::args_os(), &["registration"]);
    let table = settings::table(command != Command::default());
    let name = env!("CARGO_PKG_NAME");
    let check = |flags: &Flags| Settings::new(flags).map(Invocation::Run);
    runtime::main(name, &table, arguments, check, |settings, flags, stop| {
        // The registration agent's Lease (ocm `pkg/common/options/options.go`).
        let program = Program { name, lock: "registration-agent-lock", duty: None };
        run(settings, flags, stop, program)
    })
}

/// Returns the registration agent's flags and defaults, which klusterlet-agent has, too.
pub fn agent_flags() -> Vec<Flag> {
    settings::table(true)
}

/// Kind of a command line: a program's own, or upstream's, with an upstream program and its subcommand for agents (ocm
/// `cmd/registration/main.go`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The upstream program that it names, if any.
    pub program: Option<&'static str>,
    pub is_agent: bool,
}

impl Command {
    /// Splits a command line into its kind and its flags or an error about the subcommand; `programs` are upstream's.
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
        // The image's entry point may precede upstream's whole command line.
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

/// Returns the SHA-256 of `bytes` as 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
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
