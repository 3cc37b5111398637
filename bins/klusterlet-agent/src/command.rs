//! Command lines: upstream's, by the file names in the image, and this program's own.

use std::{ffi::OsString, path::Path};

/// Upstream's programs that this one stands in for: the operator runs `/work agent` in modes Default and Hosted.
const WORK: &str = "work";
/// In modes Singleton and SingletonHosted (ocm `klusterlet-agent-deployment.yaml`).
const OPERATOR: &str = "registration-operator";
const AGENT: &str = "agent";

/// The flags of a command line.
///
/// # Errors
/// One sentence about a command that is not here.
pub(crate) fn arguments(
    words: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, String> {
    let mut words = words.into_iter().peekable();
    let mut program = words.next().and_then(|word| upstream(&word));
    // With an entry point the whole of upstream's command line comes behind it.
    program =
        words.next_if(|word| upstream(word).is_some()).and_then(|word| upstream(&word)).or(program);
    let is_agent = words.next_if(|word| word == AGENT).is_some();
    let asks = |word: &OsString| {
        ["-h", "-help", "--help", "-version", "--version"].iter().any(|flag| word == flag)
    };
    match (program, words.peek()) {
        (_, Some(word)) if asks(word) => Ok(words.collect()),
        (Some(OPERATOR), _) if is_agent => Err(format!(
            "{OPERATOR} {AGENT} also registers the cluster, which this version does not: it has the work duty alone"
        )),
        (Some(program), word) if !is_agent => {
            let got = word.map_or_else(|| "none".to_owned(), |word| format!("{word:?}"));
            Err(format!("the subcommand of {program} must be {AGENT}, got {got}"))
        }
        _ => Ok(words.collect()),
    }
}

/// The program of upstream's that a path or name is of.
fn upstream(word: &OsString) -> Option<&'static str> {
    let name = Path::new(word).file_name()?;
    [WORK, OPERATOR].into_iter().find(|program| name == *program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Result<Vec<OsString>, String> {
        arguments(line.split(' ').map(OsString::from))
    }

    #[test]
    fn agent_is_called_as_upstreams_or_by_its_own_name() {
        for line in [
            "/work agent --v=2",
            "/usr/local/bin/klusterlet-agent /work agent --v=2",
            "klusterlet-agent agent --v=2",
            "klusterlet-agent --v=2",
        ] {
            assert_eq!(split(line), Ok(vec!["--v=2".into()]), "{line}");
        }
        for line in ["/work --help", "/registration-operator --help"] {
            assert_eq!(split(line), Ok(vec!["--help".into()]), "text is printed");
        }
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
            assert_eq!(split(line), Err(sentence.into()));
        }
        assert!(split("/registration-operator agent").unwrap_err().contains("registers"));
    }
}
