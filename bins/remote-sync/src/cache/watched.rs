//! The interface between a reflector and its handlers: the list that it follows, and the changes that it reports.

use apiclient::error::Result;
use serde_json::Value;

use crate::{
    connection::ClusterSession,
    model::{discovery::ApiResource, object::Cached},
};

/// A list to follow: how its objects are read, and who handles their changes.
pub(crate) trait Watched {
    /// The form in which objects are cached.
    type Object: Clone + PartialEq;

    /// Whether its objects are sources or targets: of these the reconciler reports what is wrong.
    const IN_PAIRS: bool;

    /// The kind in log lines.
    fn kind_name(&self) -> String;

    /// Finds the kind on the cluster.
    ///
    /// # Errors
    /// `NotServed` if the cluster does not serve it (yet), otherwise the request's error.
    fn find_kind(&self, session: &ClusterSession) -> Result<ApiResource>;

    /// Finds a kind again that was found before, in the same version; `None` if it never changes.
    fn find_kind_again(
        &self,
        _session: &ClusterSession,
        _kind: &ApiResource,
    ) -> Option<Result<ApiResource>> {
        None
    }

    /// Returns whether the kind that was found is still the one to follow: the version may have to change.
    fn accepts_kind(&self, _kind: &ApiResource) -> bool {
        true
    }

    /// Returns whether an object of this namespace and name can belong to a pair.
    fn covers(&self, namespace: &str, name: &str) -> bool;

    /// Reads an object; `None` if it is not one.
    fn read(&self, object: &Value) -> Option<Cached<Self::Object>>;

    /// Returns whether a new object's document is kept for the workers; most of what was `listed` is in sync already.
    fn keeps_document(&self, _object: &Self::Object, _listed: bool) -> bool {
        false
    }

    /// Handles a change.
    fn handle(&self, change: &Change<'_>);
}

/// A change in a list.
pub(crate) enum Change<'a> {
    /// This object is new or changed; `listed` if a list returned it, not a watch.
    Put { key: &'a str, object: &'a Value, listed: bool },
    /// This object exists but costs too much memory to be read.
    TooLarge { key: &'a str },
    /// The object with this key is gone.
    Gone { key: &'a str },
    /// Whether the store is complete, or whether it can be filled, has changed.
    State,
    /// The kind itself has changed, for example its subresources: all pairs may be affected.
    Kind,
}

impl Change<'_> {
    /// The key of the object that changed, if one did, and whether its pair is reconciled before those whose
    /// objects were merely listed.
    pub(crate) fn object(&self) -> Option<(&str, bool)> {
        match self {
            Self::Put { key, listed, .. } => Some((key, !listed)),
            Self::TooLarge { key } => Some((key, false)),
            Self::Gone { key } => Some((key, true)),
            Self::State | Self::Kind => None,
        }
    }
}
