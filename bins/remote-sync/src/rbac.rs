//! RBAC for a command line: roles for each side, and Roles on the local cluster for Leases and kubeconfigs. Discovery
//! is open to every identity.
//!
//! A side with a single namespace has a Role there, and a small ClusterRole for cluster-scoped objects: the Namespace
//! whose uid is the cluster's identity, and CustomResourceDefinitions.

use std::{collections::BTreeMap, slice};

use kubeconfig::quoted;

use crate::{
    model::key::CLUSTER,
    settings::{RemoteSource, Settings},
};

/// The name of all roles, or its prefix.
const NAME: &str = "remote-sync";
/// The Namespace whose uid is the cluster's identity.
const SYSTEM: &str = "kube-system";

/// The rules of one side, as YAML: for namespaced objects, and for cluster-scoped ones.
type SideRules = (Vec<String>, Vec<String>);

pub(crate) fn print(settings: &Settings) -> String {
    let mapping = &settings.mapping;
    let mut roles = side("source", mapping.source_namespace.as_deref(), source(settings));
    roles.extend(side("target", mapping.target_namespace.as_deref(), target(settings)));
    roles.extend(local(settings).into_iter().map(|(ns, rules)| role(NAME, Some(ns), &rules)));
    roles.join("---\n")
}

/// One ClusterRole; with a namespace, a small ClusterRole and a Role there.
fn side(side: &str, namespace: Option<&str>, (inside, outside): SideRules) -> Vec<String> {
    let name = format!("{NAME}-{side}");
    match namespace {
        None => vec![role(&name, None, &[inside, outside].concat())],
        Some(_) => vec![role(&name, None, &outside), role(&name, namespace, &inside)],
    }
}

fn role(name: &str, namespace: Option<&str>, rules: &[String]) -> String {
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let namespace = namespace.map_or(String::new(), |it| format!("  namespace: {}\n", quoted(it)));
    let rules = rules.concat();
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{namespace}rules:\n{rules}"
    )
}

/// A rule; without names, it covers all objects.
fn rule(group: &str, resources: &[&str], names: &[String], verbs: &str) -> String {
    let list = |words: &[&str]| words.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(", ");
    let names: Vec<_> = names.iter().map(|name| &**name).collect();
    let names = match &*names {
        [] => String::new(),
        names => format!("  resourceNames: [{}]\n", list(names)),
    };
    let (group, resources) = (quoted(group), list(resources));
    format!("- apiGroups: [{group}]\n{names}  resources: [{resources}]\n  verbs: [{verbs}]\n")
}

fn core(resource: &str, names: &[String], verbs: &str) -> String {
    rule("", &[resource], names, verbs)
}

/// A rule for Secrets; a comment explains a rule for all Secrets.
fn secrets(names: &[String], verbs: &str) -> String {
    let rule = core("secrets", names, verbs);
    let why = match verbs {
        _ if !names.is_empty() => return rule,
        "create" => "no Role can name what is created; leave it out where each Secret exists",
        _ => "no names are known, so it is for all",
    };
    format!("# secrets: {why}\n{rule}")
}

fn source(settings: &Settings) -> SideRules {
    let (mut inside, uploads) = (Vec::new(), !settings.secrets.is_empty());
    let marks = if settings.marks_sources { ", patch" } else { "" };
    for (group, plurals) in kinds(settings) {
        let mut add = |sub: &str, verbs: &str| {
            let plurals: Vec<_> = plurals.iter().map(|plural| format!("{plural}{sub}")).collect();
            let plurals: Vec<_> = plurals.iter().map(|plural| &**plural).collect();
            inside.push(rule(group, &plurals, &[], verbs));
        };
        add("", &format!("get, list, watch{marks}"));
        add("/status", "patch");
        if uploads {
            // Uploaded Secrets set blockOwnerDeletion, which admission may restrict to holders of this permission
            // (apiserver `plugin/pkg/admission/gc/gc_admission.go`).
            add("/finalizers", "update");
        }
    }
    if uploads {
        inside.push(secrets(&uploaded(settings), "get, update"));
        inside.push(secrets(&[], "create"));
    }
    inside.push(rule("events.k8s.io", &["events"], &[], "create"));
    // A source's Namespace is read before its target is deleted. A Role in a namespace is enough to read it.
    let system = match &settings.mapping.source_namespace {
        Some(namespace) => {
            inside.push(core("namespaces", slice::from_ref(namespace), "get"));
            vec![SYSTEM.to_owned()]
        }
        None => Vec::new(),
    };
    let mut outside = vec![core("namespaces", &system, "get")];
    // So are the definitions of the kinds.
    let defined = settings.resources.iter().filter(|wanted| !wanted.group.is_empty());
    let names: Vec<_> = defined.map(ToString::to_string).collect();
    if !names.is_empty() {
        outside.push(rule("apiextensions.k8s.io", &["customresourcedefinitions"], &names, "get"));
    }
    (inside, outside)
}

fn target(settings: &Settings) -> SideRules {
    let verbs = "get, list, watch, create, patch, delete";
    let kinds = kinds(settings).into_iter();
    let mut inside: Vec<_> =
        kinds.map(|(group, plurals)| rule(group, &plurals, &[], verbs)).collect();
    let deletes = settings.deletes_namespaces;
    if deletes {
        // Only an identity that may list everything can find out whether a namespace is empty.
        inside.push(rule("*", &["*"], &[], "list"));
    }
    if !settings.secrets.is_empty() {
        inside.push(secrets(&settings.secrets, "get, list, watch"));
    }
    let mut outside = Vec::new();
    if deletes {
        outside.push(core("namespaces", &[], "get, create, delete"));
    } else {
        if settings.mapping.target_namespace.is_none() {
            outside.push(core("namespaces", &[], "create"));
        }
        outside.push(core("namespaces", &[SYSTEM.to_owned()], "get"));
    }
    (inside, outside)
}

/// The rules for the leader election Lease, remotes' kubeconfigs and known clusters, by namespace.
fn local(settings: &Settings) -> BTreeMap<&str, Vec<String>> {
    let mut roles: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut add = |namespace, rule| roles.entry(namespace).or_default().push(rule);
    if let Some((namespace, lease)) = &settings.election {
        let leases =
            |names: &[String], verbs| rule("coordination.k8s.io", &["leases"], names, verbs);
        add(&**namespace, leases(slice::from_ref(lease), "get, update"));
        add(namespace, leases(&[], "create"));
    }
    let registry = settings.registry.as_ref().map(|registry| &*registry.namespace);
    for remote in &settings.remotes {
        if let RemoteSource::Secret { namespace, name, .. } = &remote.source
            && registry != Some(namespace)
        {
            add(namespace, secrets(slice::from_ref(name), "list, watch"));
        }
    }
    if let Some(namespace) = registry {
        add(namespace, secrets(&[], "list, watch"));
    }
    if let Some((namespace, clusters)) = &settings.known_clusters {
        add(namespace, core("configmaps", slice::from_ref(clusters), "get, patch"));
        add(namespace, core("configmaps", &[], "create"));
    }
    roles
}

fn kinds(settings: &Settings) -> BTreeMap<&str, Vec<&str>> {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for wanted in &settings.resources {
        kinds.entry(&wanted.group).or_default().push(&wanted.plural);
    }
    kinds
}

/// The names of uploaded Secrets on the source's side; empty if they are unknown.
fn uploaded(settings: &Settings) -> Vec<String> {
    let has_remote_in_name = settings.mapping.resource_suffix.contains(CLUSTER);
    if has_remote_in_name && settings.registry.is_some() {
        return Vec::new();
    }
    let remotes: Vec<_> = match has_remote_in_name {
        true => settings.remotes.iter().map(|remote| &*remote.name).collect(),
        false => vec![""],
    };
    let names = remotes.into_iter().map(|remote| settings.mapping.names(remote));
    names
        .flat_map(|names| settings.secrets.iter().map(move |secret| names.source_name(secret)))
        .collect()
}

#[cfg(test)]
mod tests;
