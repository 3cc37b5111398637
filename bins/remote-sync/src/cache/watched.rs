//! The list that a reflector follows, and the changes that it reports.

use serde_json::Value;
use shared::error::Result;

use crate::{
    connection::ClusterSession,
    model::{discovery::ApiResource, object::Cached},
};

/// One list that is followed: the objects in it, and who handles their changes.
pub(crate) trait Watched {
    /// What is kept of an object.
    type Object: Clone + PartialEq;

    /// Its objects are those of pairs, and not beside them: whoever works on a pair says what is wrong.
    const IN_PAIRS: bool;

    /// Finds the kind on this cluster.
    ///
    /// # Errors
    /// `NotServed` if the cluster does not have it (yet); else as the server says.
    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource>;

    /// Whether what was found is still the kind to follow: of one object there may be several versions.
    fn accepts_kind(&self, _kind: &ApiResource) -> bool {
        true
    }

    /// Whether a pair can be about an object of this namespace and name.
    fn covers(&self, namespace: &str, name: &str) -> bool;

    /// Reads an object; `None` for what is none.
    fn read(&self, object: &Value) -> Option<Cached<Self::Object>>;

    /// Whether the document of what is new is kept for the workers; of what was `listed` most is in step
    /// already.
    fn keeps_document(&self, _object: &Self::Object, _listed: bool) -> bool {
        false
    }

    /// Handles what is new, changed or gone.
    fn handle(&self, change: &Change<'_>);
}

/// What happened.
pub(crate) enum Change<'a> {
    /// To this object, here with its document; `listed` by a list and not by a watch.
    Put { key: &'a str, object: &'a Value, listed: bool },
    /// This object is there, and cannot be looked at.
    TooLarge { key: &'a str },
    /// The object with this key is gone.
    Gone { key: &'a str },
    /// The store is complete, or not any more, or it cannot be read.
    State,
}

impl Change<'_> {
    /// The key of the object that it is about, if it is about one, and whether it comes before what was
    /// only listed.
    pub(crate) fn object(&self) -> Option<(&str, bool)> {
        match self {
            Self::Put { key, listed, .. } => Some((key, !listed)),
            Self::TooLarge { key } => Some((key, false)),
            Self::Gone { key } => Some((key, true)),
            Self::State => None,
        }
    }
}
