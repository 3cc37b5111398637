//! The last error of a watch, for the diagnostics endpoint.

use std::sync::Mutex;

use crate::{error::Error, lock::lock};

/// The reason why an object may have changed unseen, for the diagnostics endpoint.
#[derive(Debug, Default)]
pub struct LastError(Mutex<Option<String>>);

impl LastError {
    /// The sentence, if there is one at present.
    pub fn get(&self) -> Option<String> {
        lock(&self.0).clone()
    }

    /// Sets the sentence, or removes it with `None`.
    pub fn set(&self, error: Option<&Error>) {
        *lock(&self.0) = error.map(ToString::to_string);
    }
}
