//! Discovery documents of a server.

use serde_json::Value;

use crate::{
    client::Client,
    error::{Error, Result},
    resource::valid_label,
};

/// Reads a document that has to be of `kind`, such as `APIGroup`.
pub fn document(client: &Client, path: &str, kind: &str) -> Result<Value> {
    let document = client.document(path)?;
    if document["kind"] == kind {
        return Ok(document);
    }
    let server = client.name();
    Err(Error::BadPeer(format!("get {path} on {server}: the answer is not an {kind}")))
}

/// Path of the APIResourceList of a version; the core group has no name.
pub fn version_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// The versions that an APIGroup lists, the preferred one first: a kind may exist in another one only.
pub fn versions(group: &Value) -> Vec<String> {
    let listed = group["versions"].as_array().into_iter().flatten();
    let mut versions: Vec<String> = Vec::new();
    for entry in [&group["preferredVersion"]].into_iter().chain(listed) {
        let version = entry["version"].as_str().filter(|version| valid_label(version));
        if let Some(version) = version.filter(|version| versions.iter().all(|v| v != version)) {
            versions.push(version.to_owned());
        }
    }
    versions
}
