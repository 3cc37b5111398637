//! Requests of the work duty, which the real clients and the model's connection implement.

use apiclient::{client::Preconditions, discovery::ApiResource, error::Result, resource::Target};
use serde_json::Value;

use super::objects::{ManifestWork, ResourceIdentifier, ServerSideApplyConfig, ServiceAccount};

/// The cluster that a request addresses, and who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Side<'a> {
    Hub,
    Managed,
    /// The managed cluster, with the permissions of a work's executor.
    ManagedAs(&'a ServiceAccount),
}

/// What happened to a work.
#[derive(Debug)]
pub(crate) enum WorkEvent<'a> {
    Applied,
    /// The text is the error of the first manifest that failed.
    ApplyFailed(&'a str),
    Evicted,
}

pub(crate) trait WorkIo {
    /// Returns the kind of a manifest; `NotServed` only if discovery succeeded and lacks it.
    fn find_kind(&mut self, api_version: &str, kind: &str) -> Result<ApiResource>;

    /// Returns a recorded resource in a served version; `None` only if discovery succeeded and lacks it.
    fn find_resource(&mut self, group: &str, plural: &str) -> Result<Option<ApiResource>>;

    fn get(&mut self, side: Side<'_>, target: &Target<'_>) -> Result<Value>;

    fn create(&mut self, side: Side<'_>, target: &Target<'_>, object: &Value) -> Result<Value>;

    /// Sends a JSON merge patch.
    fn patch(&mut self, side: Side<'_>, target: &Target<'_>, patch: &Value) -> Result<Value>;

    /// Replaces the object as a whole, if it still has the resourceVersion in `object`.
    fn replace(&mut self, side: Side<'_>, target: &Target<'_>, object: &Value) -> Result<Value>;

    /// Server-side apply; `Conflict` if another field manager owns a field, unless forced.
    fn apply(
        &mut self,
        side: Side<'_>,
        target: &Target<'_>,
        object: &Value,
        config: &ServerSideApplyConfig,
    ) -> Result<Value>;

    /// Deletes with propagation Background.
    fn delete(&mut self, target: &Target<'_>, preconditions: &Preconditions) -> Result<()>;

    /// Reports an event of the work in the log and as an Event on the hub.
    fn tell(&mut self, work: &ManifestWork, event: &WorkEvent<'_>);

    /// Counts an object whose drift was corrected.
    fn drift_mended(&mut self, object: &ResourceIdentifier);

    /// Returns the current time, for conditions.
    fn now(&self) -> String;
}
