//! Command lines: upstream's, recognized by the file names in the image, and this program's own.

use std::ffi::OsString;

use csr_bootstrapper::Command;

/// Upstream's work agent: the operator runs `/work agent` in modes Default and Hosted.
const WORK: &str = "work";
/// Upstream's agent in modes Singleton and SingletonHosted (ocm `klusterlet-agent-deployment.yaml`).
const OPERATOR: &str = "registration-operator";

/// The work agent's flag for the hub's kubeconfig, which another program maintains.
const SOURCE: &str = "workload-source-config";

/// The duties of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duties {
    /// Registration, and ManifestWorks with the credential that it obtains.
    Both,
    Work,
}

/// Returns the duties of a command line, and its flags or one sentence about an unsupported command.
pub(crate) fn command(
    words: impl IntoIterator<Item = OsString>,
) -> (Duties, Result<Vec<OsString>, String>) {
    let (Command { program, .. }, flags) = Command::split(words, &[WORK, OPERATOR]);
    let names_source = || flags.iter().flatten().any(names_source);
    let duties = match program {
        Some(WORK) => Duties::Work,
        None if names_source() => Duties::Work,
        _ => Duties::Both,
    };
    (duties, flags)
}

fn names_source(word: &OsString) -> bool {
    let flag = word.to_str().and_then(|word| word.strip_prefix('-'));
    let name = flag.map(|flag| flag.strip_prefix('-').unwrap_or(flag));
    name.is_some_and(|name| name.split('=').next() == Some(SOURCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> (Duties, Result<Vec<OsString>, String>) {
        command(line.split(' ').map(OsString::from))
    }

    #[test]
    fn agent_is_called_as_upstreams_or_by_its_own_name() {
        for (line, duties) in [
            ("/work agent --v=2", Duties::Work),
            ("/usr/local/bin/klusterlet-agent /work agent --v=2", Duties::Work),
            ("/registration-operator agent --v=2", Duties::Both),
            ("/usr/local/bin/klusterlet-agent /registration-operator agent --v=2", Duties::Both),
            ("klusterlet-agent agent --v=2", Duties::Both),
            ("klusterlet-agent --v=2", Duties::Both),
        ] {
            assert_eq!(split(line), (duties, Ok(vec!["--v=2".into()])), "{line}");
        }
        for line in ["/work --help", "/registration-operator --help"] {
            assert_eq!(split(line).1, Ok(vec!["--help".into()]), "text is printed");
        }
    }

    #[test]
    fn kubeconfig_of_another_program_means_works_alone() {
        for flags in ["--workload-source-config=f", "-workload-source-config f"] {
            assert_eq!(split(&format!("klusterlet-agent agent -v 2 {flags}")).0, Duties::Work);
            // The operator always passes it.
            assert_eq!(split(&format!("/registration-operator agent {flags}")).0, Duties::Both);
        }
        assert_eq!(split("klusterlet-agent -agent-id workload-source-config").0, Duties::Both);
    }

    #[test]
    fn other_commands_are_refused_in_a_sentence() {
        for (line, sentence) in [
            ("/work manager --v=2", "the subcommand of work must be agent, got \"manager\""),
            ("/work", "the subcommand of work must be agent, got none"),
            (
                "/registration-operator klusterlet",
                "the subcommand of registration-operator must be agent, got \"klusterlet\"",
            ),
        ] {
            assert_eq!(split(line).1, Err(sentence.into()));
        }
    }
}
