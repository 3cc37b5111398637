//! The paths outside the object API: discovery documents, version and health.

use serde_json::{Value, json};

use crate::{
    http::Answer,
    resources::{Registry, Resource},
};

/// Returns whether the default cluster roles open the path to everyone, even without credentials.
pub(crate) fn is_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

pub(crate) fn answer(registry: &Registry, path: &str) -> Answer {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let found = match parts.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => return Answer::text(200, "ok"),
        ["version"] => Some(version()),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        ["apis"] => Some(groups(registry)),
        ["apis", group] => single_group(registry, group),
        ["api", version] => resources(registry, "", version),
        ["apis", group, version] => resources(registry, group, version),
        _ => None,
    };
    found.map_or_else(
        || Answer::text(404, "404 page not found\n"),
        |document| Answer::json(200, &document),
    )
}

/// Returns whether any resource of this group and version is served.
pub(crate) fn serves(registry: &Registry, group: &str, version: &str) -> bool {
    resources(registry, group, version).is_some()
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "emulationMajor": "1", "emulationMinor": "34",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "33",
        "gitVersion": "v1.34.3", "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean", "buildDate": "2025-12-09T00:00:00Z", "goVersion": "go1.24.11",
        "compiler": "gc", "platform": "linux/amd64",
    })
}

fn groups(registry: &Registry) -> Value {
    let all = registry.all();
    let mut names: Vec<&str> = Vec::new();
    for resource in all.iter().filter(|resource| !resource.group.is_empty()) {
        if !names.contains(&resource.group.as_str()) {
            names.push(&resource.group);
        }
    }
    let group = |name: &&str| {
        let mut versions: Vec<Value> = Vec::new();
        for resource in all.iter().filter(|resource| resource.group == *name) {
            for version in &resource.versions {
                let entry =
                    json!({"groupVersion": format!("{name}/{version}"), "version": version});
                if !versions.contains(&entry) {
                    versions.push(entry);
                }
            }
        }
        let preferred = versions.first().cloned();
        json!({"name": name, "versions": versions, "preferredVersion": preferred})
    };
    let groups: Vec<Value> = names.iter().map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns one APIGroup; unlike an entry of the list, it has its kind.
fn single_group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = groups(registry);
    let mut group = groups["groups"].as_array()?.iter().find(|one| one["name"] == name)?.clone();
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let all = registry.all();
    let served = all.iter().filter(|resource| {
        resource.group == group && resource.versions.iter().any(|v| v == version)
    });
    let listed: Vec<Value> = served.flat_map(|resource| entries(resource)).collect();
    let group_version =
        if group.is_empty() { version.into() } else { format!("{group}/{version}") };
    (!listed.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": listed,
        })
    })
}

/// Returns the entries of a resource and its subresources.
fn entries(resource: &Resource) -> Vec<Value> {
    let entry = |suffix: &str, verbs: &[&str]| {
        json!({
            "name": format!("{}{suffix}", resource.plural), "namespaced": resource.namespaced,
            "singularName": if suffix.is_empty() { resource.kind.to_lowercase() } else { String::new() },
            "kind": resource.kind, "verbs": verbs,
        })
    };
    let verbs: &[&str] = match resource.terminating {
        false => &["create", "delete", "get", "list", "patch", "update", "watch"],
        // As in apiextensions-apiserver (`customresource_discovery_controller.go`): every verb but create keeps
        // working.
        true => &["delete", "get", "list", "watch"],
    };
    let mut all = vec![entry("", verbs)];
    if resource.status {
        all.push(entry("/status", &["get", "patch", "update"]));
    }
    if resource.is("certificatesigningrequests") {
        all.push(entry("/approval", &["get", "patch", "update"]));
    }
    if resource.is("serviceaccounts") {
        all.push(entry("/token", &["create"]));
    }
    all
}
