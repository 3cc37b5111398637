//! An object on either cluster, as far as it was seen.

use serde_json::Value;
use shared::error::{Error, Result};

/// An object that may not have been looked at yet.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) enum CachedObject {
    /// Not looked at.
    #[default]
    Unknown,
    /// There is none.
    Absent,
    /// It is this.
    Object(Value),
}

impl CachedObject {
    /// What the answer to a GET says.
    ///
    /// # Errors
    /// The answer's own, unless that is `NotFound`: no other failure means that there is none.
    pub(crate) fn of(answer: Result<Value>) -> Result<Self> {
        match answer {
            Ok(object) => Ok(Self::Object(object)),
            Err(Error::NotFound(_)) => Ok(Self::Absent),
            Err(error) => Err(error),
        }
    }
}

impl From<Option<Value>> for CachedObject {
    /// What a watch says of the one object that is followed.
    fn from(object: Option<Value>) -> Self {
        object.map_or(Self::Absent, Self::Object)
    }
}
