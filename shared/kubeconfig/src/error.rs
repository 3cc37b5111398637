//! Error type of this crate: one sentence, which never holds a credential.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    sentence: String,
    /// Where the predicate begins.
    problem: usize,
}

impl ConfigError {
    /// "`subject` `problem`", where the subject is a file, Secret or flag, or an entry of it: "Secret ns/x has no
    /// tls.crt".
    pub fn of(subject: &str, problem: &str) -> Self {
        Self { sentence: format!("{subject} {problem}"), problem: subject.len() + 1 }
    }

    pub fn message(&self) -> &str {
        &self.sentence
    }

    /// The predicate, for a sentence that has a subject of its own: "has no tls.crt".
    pub fn problem(&self) -> &str {
        &self.sentence[self.problem..]
    }
}

impl<T: Into<String>> From<T> for ConfigError {
    fn from(sentence: T) -> Self {
        Self { sentence: sentence.into(), problem: 0 }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for ConfigError {}

pub type Result<T> = std::result::Result<T, ConfigError>;
