//! Discovery of the versions and resources that a server serves.

use serde_json::Value;

use crate::{
    client::Client,
    error::{Error, Result},
    resource::{Resource, valid_label, version_path},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    pub resource: Resource,
    pub namespaced: bool,
    /// Whether it has a `status` subresource.
    pub status: bool,
}

/// The resources of a version that allow all of these verbs.
pub fn resources(
    client: &Client,
    group: &str,
    version: &str,
    verbs: &[&str],
) -> Result<Vec<ApiResource>> {
    let list = document(client, &version_path(group, version), "APIResourceList")?;
    Ok(listed(&list, group, version, verbs))
}

fn listed(list: &Value, group: &str, version: &str, verbs: &[&str]) -> Vec<ApiResource> {
    let entries = || list["resources"].as_array().into_iter().flatten();
    let allows = |entry: &Value, verb: &&str| {
        entry["verbs"].as_array().is_some_and(|allowed| allowed.iter().any(|it| it == verb))
    };
    let resources = entries().filter_map(|entry| {
        let plural = entry["name"].as_str().filter(|plural| valid_label(plural))?;
        let status = format!("{plural}/status");
        verbs.iter().all(|verb| allows(entry, verb)).then(|| ApiResource {
            resource: Resource {
                group: group.to_owned().into(),
                version: version.to_owned().into(),
                plural: plural.to_owned().into(),
                kind: entry["kind"].as_str().unwrap_or_default().to_owned().into(),
            },
            namespaced: entry["namespaced"] == true,
            status: entries().any(|entry| entry["name"] == *status),
        })
    });
    resources.collect()
}

/// Reads a document, which must be of `kind`, such as `APIGroup`.
pub fn document(client: &Client, path: &str, kind: &str) -> Result<Value> {
    let document = client.document(path)?;
    if document["kind"] == kind {
        return Ok(document);
    }
    let server = client.name();
    Err(Error::BadPeer(format!("get {path} on {server}: the answer is not an {kind}")))
}

/// The versions of an APIGroup, the preferred one first: a kind may exist only in another one.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_where_the_server_has_them() {
        assert_eq!(version_path("apps", "v1"), "/apis/apps/v1");
        assert_eq!(version_path("", "v1"), "/api/v1");
    }

    #[test]
    fn the_preferred_version_is_looked_at_first() {
        let version = |version: &str| json!({"groupVersion": "g", "version": version});
        let group = json!({"kind": "APIGroup", "preferredVersion": version("v1"),
            "versions": [version("v2"), version("v1"), version("../x"), 7]});
        assert_eq!(versions(&group), ["v1", "v2"]);
        assert!(versions(&json!({})).is_empty());
    }

    #[test]
    fn a_kind_is_listed_with_its_status_if_it_allows_the_verbs() {
        let verbs = json!(["create", "get", "list", "watch"]);
        let list = json!({"kind": "APIResourceList", "resources": [
            {"name": "widgets", "kind": "Widget", "namespaced": true, "verbs": verbs},
            {"name": "widgets/status", "kind": "Widget", "namespaced": true, "verbs": ["get"]},
            {"name": "regions", "kind": "Region", "namespaced": false, "verbs": verbs},
            {"name": "reviews", "kind": "Review", "namespaced": true, "verbs": ["create"]},
            {"name": "odd", "kind": "Odd"},
        ]});
        let kinds = listed(&list, "example.com", "v1", &["list", "watch"]);
        let [widget, region] = &*kinds else { panic!("{kinds:?}") };
        assert_eq!((widget.namespaced, widget.status), (true, true));
        let object = widget.resource.object("ns", "x");
        assert_eq!(object.path(), "/apis/example.com/v1/namespaces/ns/widgets/x");
        assert_eq!(widget.resource.kind, "Widget");
        assert_eq!((region.namespaced, region.status), (false, false));
        assert_eq!(listed(&list, "example.com", "v1", &[]).len(), 4);
    }
}
