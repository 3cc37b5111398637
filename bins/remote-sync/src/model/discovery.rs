//! Discovery: resolves the kinds of `-resource` through a server's discovery documents.

use std::fmt;

use apiclient::{
    client::Client,
    discovery::{self, ApiResource, versions},
    error::{Error, Result},
    resource::{Target, valid_label, valid_name},
};

/// A kind as given by `-resource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceArg {
    /// Empty for the core group.
    pub(crate) group: String,
    /// `None` means the server's preferred version.
    pub(crate) version: Option<String>,
    pub(crate) plural: String,
}

/// The only version of the core group, which has no discovery document to list its versions.
const CORE: &str = "v1";

impl ResourceArg {
    /// Parses `plural`, `plural.group`, `version/plural` or `group/version/plural`.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let (group, version, plural) = match *text.split('/').collect::<Vec<_>>() {
            [name] => match name.split_once('.') {
                Some((plural, group)) => (Some(group), None, plural),
                None => (None, Some(CORE), name),
            },
            // Two parts are valid only as v1/plural: any other group needs its version.
            [CORE, plural] => (None, Some(CORE), plural),
            [group, version, plural] => (Some(group), Some(version), plural),
            _ => (None, None, ""),
        };
        let sound =
            group.is_none_or(valid_name) && version.is_none_or(valid_label) && valid_label(plural);
        if !sound {
            return Err(format!(
                "-resource must be plural.group or group/version/plural, without a group plural or v1/plural, got {text:?}"
            ));
        }
        let group = group.unwrap_or_default().to_owned();
        Ok(Self { group, version: version.map(str::to_owned), plural: plural.to_owned() })
    }

    /// The same kind in the version of `found`.
    pub(crate) fn in_version_of(&self, found: &ApiResource) -> Self {
        Self { version: Some(found.resource.version.to_string()), ..self.clone() }
    }

    /// Returns whether both name the same kind, in any version.
    pub(crate) fn same(&self, other: &Self) -> bool {
        (&self.group, &self.plural) == (&other.group, &other.plural)
    }
}

/// Formats as RBAC and `kubectl api-resources -o name` do: `poddisruptionbudgets.policy`.
impl fmt::Display for ResourceArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// The most versions of a group that are searched for a kind: Kubernetes' own groups have at most four.
const MAX_VERSIONS: usize = 16;

/// Resolves a kind on a server.
pub(crate) fn resolve(client: &Client, wanted: &ResourceArg) -> Result<ApiResource> {
    let versions = match &wanted.version {
        Some(version) => vec![version.clone()],
        None => {
            let path = format!("/apis/{}", wanted.group);
            let group = discovery::document(client, &path, "APIGroup");
            versions(&group.map_err(|error| found_nothing(client, wanted, error))?)
        }
    };
    for version in versions.into_iter().take(MAX_VERSIONS) {
        let kinds = discovery::resources(client, &wanted.group, &version, &["list", "watch"]);
        let kinds = kinds.map_err(|error| found_nothing(client, wanted, error))?.into_iter();
        let mut named = kinds.filter(|kind| kind.resource.plural == wanted.plural);
        if let Some(kind) = named.find(|kind| !kind.resource.kind.is_empty()) {
            return Ok(kind);
        }
    }
    Err(not_served(client, wanted))
}

/// Resolves a kind again, in the version of `known` while the server serves that. Other clusters may not serve a
/// version that this server now prefers.
pub(crate) fn resolve_again(
    client: &Client,
    wanted: &ResourceArg,
    known: Option<&ApiResource>,
) -> Result<ApiResource> {
    if let Some(known) = known {
        match resolve(client, &wanted.in_version_of(known)) {
            Err(Error::NotServed(_)) => {}
            found => return found,
        }
    }
    resolve(client, wanted)
}

/// All namespaced kinds of a server that can be listed, in each version: some are not in the version that their group
/// prefers.
pub(crate) fn namespaced(client: &Client) -> Result<Vec<ApiResource>> {
    let groups = discovery::document(client, "/apis", "APIGroupList")?;
    let mut kinds = discovery::resources(client, "", CORE, &["list"])?;
    for group in groups["groups"].as_array().into_iter().flatten() {
        let (name, versions) = (group["name"].as_str(), versions(group));
        let name = name.filter(|name| valid_name(name) && !versions.is_empty());
        let Some(name) = name.filter(|_| versions.len() <= MAX_VERSIONS) else {
            let server = client.name();
            return Err(Error::BadPeer(format!("get /apis on {server}: a group is not usable")));
        };
        for version in &versions {
            kinds.extend(discovery::resources(client, name, version, &["list"])?);
        }
    }
    kinds.retain(|kind| kind.namespaced);
    Ok(kinds)
}

/// All objects of a kind, or those in a namespace.
pub(crate) fn within<'a>(kind: &'a ApiResource, namespace: Option<&'a str>) -> Target<'a> {
    match namespace {
        Some(namespace) if kind.namespaced => kind.resource.collection(namespace),
        _ => kind.resource.everywhere(),
    }
}

fn found_nothing(client: &Client, wanted: &ResourceArg, error: Error) -> Error {
    match error {
        Error::NotFound(_) | Error::NotServed(_) => not_served(client, wanted),
        error => error,
    }
}

fn not_served(client: &Client, wanted: &ResourceArg) -> Error {
    let version = wanted.version.as_deref().map_or(String::new(), |v| format!(" in version {v}"));
    let server = client.name();
    Error::NotServed(format!("{server} does not serve {wanted}{version} to list and watch"))
}

#[cfg(test)]
mod tests;
