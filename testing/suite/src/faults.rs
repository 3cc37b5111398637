//! Faults that many tests ask the embedded server for.

use dev_apiserver::Action;

/// An answer with this code and a Status.
pub fn code(code: u16) -> Action {
    Action::Answer { code, body: None, retry_after: None }
}
