//! Error type of this crate: one sentence, which never holds a credential.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    sentence: String,
    problem: String,
}

impl ConfigError {
    /// "`subject` `problem`", where the subject is a file, Secret or flag: "Secret ns/x has no tls.crt".
    pub fn of(subject: &str, problem: String) -> Self {
        Self { sentence: format!("{subject} {problem}"), problem }
    }

    /// Of an entry of a kubeconfig, such as `user "u"`: "Secret ns/x: user "u" has no name".
    pub fn of_entry(subject: &str, entry: &str, problem: &str) -> Self {
        Self {
            sentence: format!("{subject}: {entry} {problem}"),
            problem: format!("has a kubeconfig whose {entry} {problem}"),
        }
    }

    /// The sentence: "Secret ns/x has no tls.crt".
    pub fn message(&self) -> &str {
        &self.sentence
    }

    /// The predicate, for a sentence that has a subject of its own: "has no tls.crt".
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl<T: Into<String>> From<T> for ConfigError {
    fn from(sentence: T) -> Self {
        let sentence = sentence.into();
        Self { problem: format!("cannot be used: {sentence}"), sentence }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for ConfigError {}

pub type Result<T> = std::result::Result<T, ConfigError>;
