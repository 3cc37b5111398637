//! The interface between a reflector and its handlers: the list that it follows, and the changes that it reports.

use serde_json::Value;

use crate::model::object::Cached;

/// A list to follow: how its objects are read, and who handles their changes.
pub(crate) trait Watched: Send + 'static {
    /// The form in which objects are cached.
    type Object: Clone + PartialEq + Send;

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
    /// An object is new or changed, or with `None` exists but costs too much memory to be read; `listed` if a list
    /// returned it, not a watch.
    Put { key: &'a str, object: Option<&'a Value>, listed: bool },
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
            Self::Put { key, object, listed } => Some((key, !listed && object.is_some())),
            Self::Gone { key } => Some((key, true)),
            Self::State | Self::Kind => None,
        }
    }
}
