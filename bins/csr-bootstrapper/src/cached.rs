//! Cached object of either cluster: unknown, absent or present.

use apiclient::error::{Error, Result};
use serde_json::Value;

/// An object that may not have been read yet.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) enum CachedObject {
    /// Not read yet.
    #[default]
    Unknown,
    /// It does not exist.
    Absent,
    /// Its last known state.
    Object(Value),
}

impl CachedObject {
    /// The object, if there is one.
    pub(crate) fn object(&self) -> Option<&Value> {
        match self {
            Self::Object(object) => Some(object),
            Self::Unknown | Self::Absent => None,
        }
    }

    /// The meaning of the answer to a GET.
    ///
    /// # Errors
    /// That of the answer, unless it is `NotFound`: no other failure means that the object does not exist.
    pub(crate) fn of(answer: Result<Value>) -> Result<Self> {
        match answer {
            Ok(object) => Ok(Self::Object(object)),
            Err(Error::NotFound(_)) => Ok(Self::Absent),
            Err(error) => Err(error),
        }
    }
}

impl From<Option<Value>> for CachedObject {
    /// The meaning of an update of the one object that is watched.
    fn from(object: Option<Value>) -> Self {
        object.map_or(Self::Absent, Self::Object)
    }
}
