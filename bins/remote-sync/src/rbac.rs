//! RBAC that a command line needs: a ClusterRole for each side, and Roles on the local cluster for Leases and
//! kubeconfigs. Discovery and `/version` are open to every identity.
//!
//! Both sides' rights are cluster-wide, even with `-source-namespace`: the target's namespaces follow from the
//! objects, and a cluster's identity is the uid of a namespace.

use std::{collections::BTreeMap, slice};

use serde_json::{Value, json};
use shared::{
    resource::{CONFIGMAPS, CUSTOM_RESOURCE_DEFINITIONS, LEASES, SECRETS},
    yaml,
};

use crate::{
    model::{mapping::CLUSTER, mode::Mode},
    settings::{NamespacePolicy, OrphanPolicy, RemoteSource, Settings},
};

/// The name of all roles, or its start.
const NAME: &str = "remote-sync";

/// A rule of a role; without `names` it is for all objects.
fn rule(group: &str, resources: &[String], names: &[String], verbs: &[&str]) -> Value {
    let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

/// A rule for the core group.
fn core(resource: &str, names: &[String], verbs: &[&str]) -> Value {
    rule("", &[resource.to_owned()], names, verbs)
}

/// All roles as YAML documents.
pub(crate) fn print(settings: &Settings) -> String {
    let mut roles = vec![
        role(&format!("{NAME}-source"), None, source(settings)),
        role(&format!("{NAME}-target"), None, target(settings)),
    ];
    roles.extend(local(settings).into_iter().map(|(ns, rules)| role(NAME, Some(ns), rules)));
    roles.iter().map(yaml::print).collect::<Vec<_>>().join("---\n")
}

fn role(name: &str, namespace: Option<&str>, rules: Vec<Value>) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": if namespace.is_some() { "Role" } else { "ClusterRole" },
        "metadata": metadata,
        "rules": rules,
    })
}

fn source(settings: &Settings) -> Vec<Value> {
    let mut rules = Vec::new();
    for (group, plurals) in kinds(settings) {
        let sub = |name: &str| plurals.iter().map(|plural| format!("{plural}/{name}")).collect();
        let (status, finalizers): (Vec<_>, Vec<_>) = (sub("status"), sub("finalizers"));
        rules.push(rule(group, &plurals, &[], &["get", "list", "watch", "patch"]));
        rules.push(rule(group, &status, &[], &["patch"]));
        if !settings.secrets.is_empty() {
            // Uploaded Secrets have blockOwnerDeletion, for which admission may require this
            // (apiserver `plugin/pkg/admission/gc/gc_admission.go`).
            rules.push(rule(group, &finalizers, &[], &["update"]));
        }
    }
    if !settings.secrets.is_empty() {
        rules.push(core("secrets", &uploaded(settings), &["get", "update"]));
        rules.push(core("secrets", &[], &["create"]));
    }
    // kube-system is the cluster's identity; whether another or a kind is being deleted, is asked before a target is.
    rules.push(core("namespaces", &[], &["get"]));
    let definitions: Vec<_> = settings
        .resources
        .iter()
        .filter(|(_, wanted)| !wanted.group.is_empty())
        .map(|(_, wanted)| wanted.to_string())
        .collect();
    if !definitions.is_empty() {
        let kind = &CUSTOM_RESOURCE_DEFINITIONS;
        rules.push(rule(&kind.group, &[kind.plural.to_string()], &definitions, &["get"]));
    }
    rules.push(core("events", &[], &["create"]));
    rules
}

fn target(settings: &Settings) -> Vec<Value> {
    let writes: &[_] = match (settings.mode, settings.orphans.policy) {
        (Mode::Safe, _) => &["patch"],
        // PUT for the content, PATCH for the annotation of kept orphans.
        (Mode::Compat, OrphanPolicy::Keep) => &["update", "patch"],
        (Mode::Compat, _) => &["update"],
    };
    let verbs = [&["get", "list", "watch", "create"], writes, &["delete"]].concat();
    let kinds = kinds(settings).into_iter();
    let mut rules: Vec<_> =
        kinds.map(|(group, plurals)| rule(group, &plurals, &[], &verbs)).collect();
    let verbs = ["get", "list", "watch", "create", "delete"];
    rules.push(core("namespaces", &[], &verbs));
    if settings.namespaces == NamespacePolicy::Empty {
        // Whether a namespace is empty, is known only to one who may list everything in it.
        rules.push(rule("*", &["*".to_owned()], &[], &["list"]));
    }
    if !settings.secrets.is_empty() {
        let verbs = ["get", "list", "watch", "patch"];
        rules.push(core("secrets", &settings.secrets, &verbs));
    }
    rules
}

/// The rules for the leader election Lease and remotes' kubeconfigs, by namespace.
fn local(settings: &Settings) -> BTreeMap<&str, Vec<Value>> {
    const READ: [&str; 3] = ["get", "list", "watch"];
    let mut roles: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    if let Some(election) = &settings.election {
        let rules = roles.entry(&election.namespace).or_default();
        let (group, leases) = (&*LEASES.group, [LEASES.plural.to_string()]);
        rules.push(rule(group, &leases, slice::from_ref(&election.name), &["get", "update"]));
        // The right to create cannot be restricted to a name.
        rules.push(rule(group, &leases, &[], &["create"]));
    }
    let mut named: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for remote in &settings.remotes {
        if let RemoteSource::Secret { namespace, name, .. } = &remote.source {
            named.entry(namespace).or_default().push(name.clone());
        }
    }
    let registry = settings.registry.as_ref().map(|registry| &*registry.namespace);
    if let Some(namespace) = registry {
        // All: their names are not known.
        named.insert(namespace, Vec::new());
    }
    for (namespace, mut names) in named {
        names.sort();
        names.dedup();
        let rule = core(&SECRETS.plural, &names, &READ);
        roles.entry(namespace).or_default().push(rule);
    }
    if let Some((namespace, name)) = &settings.ledger {
        let rules = roles.entry(namespace).or_default();
        let maps = &CONFIGMAPS.plural;
        rules.push(core(maps, slice::from_ref(name), &["get", "patch"]));
        rules.push(core(maps, &[], &["create"]));
    }
    roles
}

/// The kinds' plurals, by group.
fn kinds(settings: &Settings) -> BTreeMap<&str, Vec<String>> {
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (_, wanted) in settings.resources.iter() {
        kinds.entry(&wanted.group).or_default().push(wanted.plural.clone());
    }
    kinds
}

/// The names of uploaded Secrets at the source; none if they cannot be known.
fn uploaded(settings: &Settings) -> Vec<String> {
    let mut remotes: Vec<_> = settings.remotes.iter().map(|remote| &*remote.name).collect();
    if !settings.mapping.resource_suffix.contains(CLUSTER) {
        // The name does not matter.
        remotes = vec![""];
    } else if settings.registry.is_some() {
        remotes.clear();
    }
    let names = remotes.iter().map(|remote| settings.mapping.names(remote));
    names
        .flat_map(|names| settings.secrets.iter().map(move |secret| names.source("", secret).1))
        .collect()
}

#[cfg(test)]
mod tests;
