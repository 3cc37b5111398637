//! RBAC that a command line needs: roles for each side, and Roles on the local cluster for Leases and kubeconfigs.
//! Discovery is open to every identity.
//!
//! A side that is restricted to namespaces has a Role in each, and a small ClusterRole for what is in none: the
//! cluster's identity, which is the uid of a Namespace, and the kinds' definitions.

use std::{collections::BTreeMap, slice};

use apiclient::resource::{CONFIGMAPS, CUSTOM_RESOURCE_DEFINITIONS, LEASES, SECRETS};
use kubeconfig::quoted;

use crate::{
    model::mapping::CLUSTER,
    settings::{NamespacePolicy, RemoteSource, Settings},
};

/// The name of all roles, or its start.
const NAME: &str = "remote-sync";
/// The Namespace whose uid is the cluster's identity.
const SYSTEM: &str = "kube-system";
/// The verbs for what is read by name.
const GET: &[&str] = &["get"];
/// The verbs for what no role can name.
const CREATE: &[&str] = &["create"];

/// The rules of one side, as YAML: for objects in namespaces, and for the others.
type SideRules = (Vec<String>, Vec<String>);

/// All roles as YAML documents.
pub(crate) fn print(settings: &Settings) -> String {
    let mapping = &settings.mapping;
    let mut roles = side("source", mapping.source_namespace.as_deref(), source(settings));
    roles.extend(side("target", mapping.target_namespace.as_deref(), target(settings)));
    roles.extend(local(settings).into_iter().map(|(ns, rules)| role(NAME, Some(ns), &rules)));
    roles.join("---\n")
}

/// One ClusterRole, or with a namespace a small one and a Role in that.
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
    let (name, rules) = (quoted(name), rules.concat());
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{namespace}rules:\n{rules}"
    )
}

/// A rule; without names it is for all objects.
fn rule(group: &str, resources: &[String], names: &[String], verbs: &[&str]) -> String {
    fn list(words: &[impl AsRef<str>]) -> String {
        let words: Vec<_> = words.iter().map(|word| quoted(word.as_ref())).collect();
        words.join(", ")
    }
    let names = match names {
        [] => String::new(),
        names => format!("  resourceNames: [{}]\n", list(names)),
    };
    let (group, resources, verbs) = (list(&[group]), list(resources), list(verbs));
    format!("- apiGroups: [{group}]\n{names}  resources: [{resources}]\n  verbs: [{verbs}]\n")
}

/// A rule for the core group; for Secrets after a comment if it is for all.
fn core(resource: &str, names: &[String], verbs: &[&str]) -> String {
    let rule = rule("", &[resource.to_owned()], names, verbs);
    if resource != SECRETS.plural || !names.is_empty() {
        return rule;
    }
    let why = match verbs {
        CREATE => "no role can name what is created; where each Secret exists, leave the rule out",
        _ => "the names are not known, so it is for all",
    };
    format!("# secrets: {}: {why}\n{rule}", verbs.join(", "))
}

fn source(settings: &Settings) -> SideRules {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    let verbs = ["get", "list", "watch", "patch"];
    let verbs = &verbs[..if settings.track.marks_sources() { 4 } else { 3 }];
    for (group, plurals) in kinds(settings) {
        let sub = |name: &str| -> Vec<_> {
            plurals.iter().map(|plural| format!("{plural}/{name}")).collect()
        };
        inside.push(rule(group, &plurals, &[], verbs));
        inside.push(rule(group, &sub("status"), &[], &["patch"]));
        if !settings.secrets.is_empty() {
            // Uploaded Secrets have blockOwnerDeletion, for which admission may require this
            // (apiserver `plugin/pkg/admission/gc/gc_admission.go`).
            inside.push(rule(group, &sub("finalizers"), &[], &["update"]));
        }
    }
    if !settings.secrets.is_empty() {
        inside.push(core(&SECRETS.plural, &uploaded(settings), &["get", "update"]));
        inside.push(core(&SECRETS.plural, &[], CREATE));
    }
    inside.push(core("events", &[], CREATE));
    // A source's Namespace is read before its target is deleted. A Role in a namespace is enough for that Namespace.
    let mut named = Vec::new();
    if let Some(namespace) = &settings.mapping.source_namespace {
        inside.push(core("namespaces", slice::from_ref(namespace), GET));
        named.push(SYSTEM.to_owned());
    }
    outside.push(core("namespaces", &named, GET));
    // So are the kinds' definitions.
    let defined = settings.resources.iter().filter(|(_, wanted)| !wanted.group.is_empty());
    let names: Vec<_> = defined.map(|(_, wanted)| wanted.to_string()).collect();
    if !names.is_empty() {
        let kind = &CUSTOM_RESOURCE_DEFINITIONS;
        outside.push(rule(&kind.group, &[kind.plural.to_string()], &names, GET));
    }
    (inside, outside)
}

fn target(settings: &Settings) -> SideRules {
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    let kinds = kinds(settings).into_iter();
    let mut inside: Vec<_> =
        kinds.map(|(group, plurals)| rule(group, &plurals, &[], &verbs)).collect();
    let (deletes, creates) = (
        settings.namespaces == NamespacePolicy::Empty,
        settings.mapping.target_namespace.is_none(),
    );
    if deletes {
        // Whether a namespace is empty, is known only to one who may list everything in it.
        let all = rule("*", &["*".to_owned()], &[], &["list"]);
        let why = "it is for everything; -namespace-policy never does without it";
        inside.push(format!("# *: list: {why}\n{all}"));
    }
    if !settings.secrets.is_empty() {
        inside.push(core(&SECRETS.plural, &settings.secrets, &["get", "list", "watch"]));
    }
    let verbs = ["get", "list", "watch", "create", "delete"];
    let outside = match deletes {
        true => vec![core("namespaces", &[], &verbs)],
        false => {
            let create = creates.then(|| core("namespaces", &[], CREATE));
            create.into_iter().chain([core("namespaces", &[SYSTEM.to_owned()], GET)]).collect()
        }
    };
    (inside, outside)
}

/// The rules for the leader election Lease and remotes' kubeconfigs, by namespace.
fn local(settings: &Settings) -> BTreeMap<&str, Vec<String>> {
    let mut roles: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    if let Some((namespace, lease)) = &settings.election {
        let rules = roles.entry(namespace).or_default();
        let (group, leases) = (&*LEASES.group, [LEASES.plural.to_string()]);
        rules.push(rule(group, &leases, slice::from_ref(lease), &["get", "update"]));
        rules.push(rule(group, &leases, &[], CREATE));
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
        let rule = core(&SECRETS.plural, &names, &["list", "watch"]);
        roles.entry(namespace).or_default().push(rule);
    }
    if let Some((namespace, clusters)) = &settings.known_clusters {
        let rules = roles.entry(namespace).or_default();
        let maps = &CONFIGMAPS.plural;
        rules.push(core(maps, slice::from_ref(clusters), &["get", "patch"]));
        rules.push(core(maps, &[], CREATE));
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
