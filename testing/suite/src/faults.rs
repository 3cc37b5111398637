//! Faults of the embedded server that many tests use.

use std::fmt::Display;

use dev_apiserver::Action;

/// Returns an answer with this code and a Status.
pub fn code(code: u16) -> Action {
    Action::Answer { code, body: None, retry_after: None }
}

/// Returns an answer with this code and body.
pub fn answer(code: u16, body: impl Display) -> Action {
    Action::Answer { code, body: Some(body.to_string()), retry_after: None }
}
