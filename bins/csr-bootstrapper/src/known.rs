//! What can be known of an object on either cluster, and of the bootstrap kubeconfig.

use serde_json::Value;
use shared::{
    access::{Access, Auth, Identity},
    kubeconfig::Hub,
    watch::Change,
};

/// An object that may not have been looked at yet.
#[derive(Clone, Default)]
pub(crate) enum Sighting {
    /// Not looked at.
    #[default]
    Unknown,
    /// There is none.
    Absent,
    /// It is this.
    Object(Value),
}

/// A bootstrap kubeconfig that can be used.
#[derive(Clone, PartialEq)]
pub(crate) struct Bootstrap {
    pub(crate) hub: Hub,
    pub(crate) access: Access,
}

impl Bootstrap {
    /// The same hub with the agent's own identity.
    pub(crate) fn as_agent(&self, identity: &Identity) -> Access {
        Access {
            identity: Some(identity.clone()),
            auth: Auth::None,
            impersonate: Vec::new(),
            ..self.access.clone()
        }
    }
}

/// What a change says of the one object that is followed.
pub(crate) fn sighting(change: Change) -> Sighting {
    match change {
        Change::Listed(objects) => {
            objects.into_iter().next().map_or(Sighting::Absent, Sighting::Object)
        }
        Change::Put(object) => Sighting::Object(object),
        Change::Removed(_) => Sighting::Absent,
    }
}
