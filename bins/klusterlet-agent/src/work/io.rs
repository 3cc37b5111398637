//! Requests of the work duty: the real clients send them, and so does the world of the model.

use apiclient::{client::Preconditions, discovery::ApiResource, error::Result, resource::Target};
use serde_json::Value;

use super::objects::{ManifestWork, ResourceIdentifier, ServerSideApplyConfig, ServiceAccount};

/// The cluster that a request goes to, and on whose behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Side<'a> {
    Hub,
    Managed,
    /// The managed cluster, with the rights of a work's executor.
    ManagedAs(&'a ServiceAccount),
}

/// What happened to a work.
#[derive(Debug)]
pub(crate) enum WorkEvent<'a> {
    Applied,
    /// With the first manifest's error.
    ApplyFailed(&'a str),
    Evicted,
}

pub(crate) trait WorkIo {
    /// The kind of a manifest; `NotServed` only if discovery succeeded without it.
    fn find_kind(&mut self, api_version: &str, kind: &str) -> Result<ApiResource>;

    /// A recorded resource in a version that is served now; `None` only if discovery succeeded without it.
    fn find_resource(&mut self, group: &str, plural: &str) -> Result<Option<ApiResource>>;

    fn get(&mut self, side: Side<'_>, target: &Target<'_>) -> Result<Value>;

    fn create(&mut self, side: Side<'_>, target: &Target<'_>, object: &Value) -> Result<Value>;

    /// A JSON merge patch.
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

    /// With propagation Background.
    fn delete(&mut self, target: &Target<'_>, preconditions: &Preconditions) -> Result<()>;

    /// Tells people about the work, on the hub.
    fn tell(&mut self, work: &ManifestWork, event: &WorkEvent<'_>);

    /// Counts an object that others had changed.
    fn drift_mended(&mut self, object: &ResourceIdentifier);

    /// The time for conditions.
    fn now(&self) -> String;
}
