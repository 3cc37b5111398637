//! Command line: this program's own, or that of the registration agent, `/registration agent`, which the klusterlet
//! operator runs (ocm `cmd/registration/main.go`).

use std::{ffi::OsString, path::Path};

/// The command lines that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandForm {
    /// Flags alone.
    Own,
    /// `registration agent` and flags: with the registration agent's defaults.
    Agent,
}

/// Name of upstream's program, and its subcommand for agents.
const REGISTRATION: &str = "registration";
const AGENT: &str = "agent";

/// The form of a command line, and its flags.
///
/// # Errors
/// One sentence about a subcommand of upstream's program that is not here, in the second place.
pub(crate) fn command(
    words: impl IntoIterator<Item = OsString>,
) -> (CommandForm, Result<Vec<OsString>, String>) {
    let mut words = words.into_iter().peekable();
    let mut is_registration = words.next().is_some_and(|program| is_named(&program));
    // With an entry point the whole of upstream's command line comes behind it.
    is_registration |= words.next_if(is_named).is_some();
    let form = match is_registration || words.peek().is_some_and(|word| word == AGENT) {
        true => CommandForm::Agent,
        false => CommandForm::Own,
    };
    let is_agent = words.next_if(|word| form == CommandForm::Agent && word == AGENT).is_some();
    let asks = |word: &OsString| {
        ["-h", "-help", "--help", "-version", "--version"].iter().any(|flag| word == flag)
    };
    let refused = match words.peek() {
        _ if is_agent || form == CommandForm::Own => None,
        Some(flag) if asks(flag) => None,
        Some(word) => {
            Some(format!("{REGISTRATION} has the subcommand {AGENT} alone here, not {word:?}"))
        }
        None => Some(format!("{REGISTRATION} needs its subcommand {AGENT}")),
    };
    (form, refused.map_or_else(|| Ok(words.collect()), Err))
}

/// Returns whether a program's path or name is that of upstream's.
fn is_named(word: &OsString) -> bool {
    Path::new(word).file_name().is_some_and(|name| name == REGISTRATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> (CommandForm, Result<Vec<OsString>, String>) {
        command(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_agent_is_called_as_upstreams() {
        for line in [
            "/registration agent --v=2",
            "registration agent --v=2",
            "/usr/local/bin/csr-bootstrapper /registration agent --v=2",
            "csr-bootstrapper registration agent --v=2",
            "csr-bootstrapper agent --v=2",
        ] {
            assert_eq!(split(line), (CommandForm::Agent, Ok(vec!["--v=2".into()])), "{line}");
        }
        assert_eq!(split("/registration agent"), (CommandForm::Agent, Ok(vec![])));
        for flag in ["-h", "--help", "--version"] {
            let asked = split(&format!("/registration {flag}"));
            assert_eq!(asked, (CommandForm::Agent, Ok(vec![flag.into()])), "text is printed");
        }
    }

    #[test]
    fn flags_alone_are_this_programs_own() {
        let own = (CommandForm::Own, Ok(vec!["-v".into(), "2".into()]));
        assert_eq!(split("/usr/local/bin/csr-bootstrapper -v 2"), own);
        assert_eq!(split("csr-bootstrapper"), (CommandForm::Own, Ok(vec![])));
        // A value is no subcommand.
        let named = (CommandForm::Own, Ok(vec!["-cluster-name".into(), "agent".into()]));
        assert_eq!(split("csr-bootstrapper -cluster-name agent"), named);
    }

    /// Upstream's program also has the hub's side.
    #[test]
    fn other_subcommands_are_refused_in_a_sentence() {
        for other in ["controller", "webhook-server", "hub", "--bootstrap-kubeconfig=x"] {
            let refused =
                format!("registration has the subcommand agent alone here, not {other:?}");
            assert_eq!(split(&format!("/registration {other}")).1, Err(refused.clone()));
            assert_eq!(split(&format!("csr-bootstrapper registration {other}")).1, Err(refused));
        }
        let refused = "registration needs its subcommand agent".to_owned();
        assert_eq!(split("/registration").1, Err(refused));
    }
}
