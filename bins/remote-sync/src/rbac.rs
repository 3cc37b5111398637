//! The rights that a command line needs: a ClusterRole for each side, and Roles on the own cluster for
//! what is neither side's. Discovery and `/version` are open to every identity.
//!
//! The sides' rights are for the whole cluster, also with `-source-namespace`: which namespaces the target
//! has follows from its objects, and the identity of either is the uid of a namespace.

use std::{collections::BTreeMap, fmt::Write, slice};

use shared::resource::{LEASES, SECRETS};

use crate::{
    model::{mapping::CLUSTER, mode::Mode},
    settings::{OrphanPolicy, RemoteSource, Settings},
};

/// What all that is printed is called, or begins with.
const NAME: &str = "remote-sync";

/// One rule of a role.
#[derive(Debug)]
struct Rule {
    group: String,
    resources: Vec<String>,
    /// Of the objects; empty for all.
    names: Vec<String>,
    verbs: Vec<&'static str>,
}

impl Rule {
    fn new(group: &str, resources: &[String], names: &[String], verbs: &[&'static str]) -> Self {
        Self {
            group: group.to_owned(),
            resources: resources.to_vec(),
            names: names.to_vec(),
            verbs: verbs.to_vec(),
        }
    }

    /// Of the core group.
    fn core(resource: &str, names: &[String], verbs: &[&'static str]) -> Self {
        Self::new("", &[resource.to_owned()], names, verbs)
    }
}

/// All roles, as one YAML text.
pub(crate) fn print(settings: &Settings) -> String {
    let mut text = String::new();
    role(&mut text, &format!("{NAME}-source"), None, &source(settings));
    role(&mut text, &format!("{NAME}-target"), None, &target(settings));
    for (namespace, rules) in own(settings) {
        role(&mut text, NAME, Some(namespace), &rules);
    }
    text
}

fn source(settings: &Settings) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (group, plurals) in kinds(settings) {
        let sub = |name: &str| plurals.iter().map(|plural| format!("{plural}/{name}")).collect();
        let (status, finalizers): (Vec<_>, Vec<_>) = (sub("status"), sub("finalizers"));
        rules.push(Rule::new(group, &plurals, &[], &["get", "list", "watch", "patch"]));
        rules.push(Rule::new(group, &status, &[], &["patch"]));
        if !settings.secrets.is_empty() {
            // Uploaded Secrets block their owner's deletion, which admission may ask this for
            // (apiserver `plugin/pkg/admission/gc/gc_admission.go`).
            rules.push(Rule::new(group, &finalizers, &[], &["update"]));
        }
    }
    if !settings.secrets.is_empty() {
        rules.push(Rule::core("secrets", &uploaded(settings), &["update"]));
    }
    rules.push(Rule::core("namespaces", &["kube-system".to_owned()], &["get"]));
    rules.push(Rule::core("events", &[], &["create"]));
    rules
}

fn target(settings: &Settings) -> Vec<Rule> {
    let writes: &[_] = match (settings.mode, settings.orphans.policy) {
        (Mode::Safe, _) => &["patch"],
        // A PUT for what is in step, a mark for what is not.
        (Mode::Compat, OrphanPolicy::Keep) => &["update", "patch"],
        (Mode::Compat, _) => &["update"],
    };
    let verbs = [&["get", "list", "watch", "create"], writes, &["delete"]].concat();
    let kinds = kinds(settings).into_iter();
    let mut rules: Vec<_> =
        kinds.map(|(group, plurals)| Rule::new(group, &plurals, &[], &verbs)).collect();
    let verbs = ["get", "list", "watch", "create", "delete"];
    rules.push(Rule::core("namespaces", &[], &verbs));
    if !settings.secrets.is_empty() {
        let verbs = ["get", "list", "watch", "patch"];
        rules.push(Rule::core("secrets", &settings.secrets, &verbs));
    }
    rules
}

/// The election's Lease and the remotes' kubeconfigs, by namespace.
fn own(settings: &Settings) -> BTreeMap<&str, Vec<Rule>> {
    const READ: [&str; 3] = ["get", "list", "watch"];
    let mut roles: BTreeMap<&str, Vec<Rule>> = BTreeMap::new();
    if let Some(election) = &settings.election {
        let rules = roles.entry(&election.namespace).or_default();
        let (group, leases) = (&*LEASES.group, [LEASES.plural.to_string()]);
        rules.push(Rule::new(group, &leases, slice::from_ref(&election.name), &["get", "update"]));
        // The right to create cannot be bound to a name.
        rules.push(Rule::new(group, &leases, &[], &["create"]));
    }
    let mut named: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for remote in &settings.remotes {
        if let RemoteSource::Secret { namespace, name, .. } = &remote.source {
            named.entry(namespace).or_default().push(name.clone());
        }
    }
    let registry = settings.registry.as_ref().map(|registry| &*registry.namespace);
    if let Some(namespace) = registry {
        // Their names are not known.
        named.insert(namespace, Vec::new());
    }
    for (namespace, mut names) in named {
        names.sort();
        names.dedup();
        let rule = Rule::core(&SECRETS.plural, &names, &READ);
        roles.entry(namespace).or_default().push(rule);
    }
    roles
}

/// The kinds' names in a path, by group.
fn kinds(settings: &Settings) -> BTreeMap<&str, Vec<String>> {
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for wanted in &settings.resources {
        kinds.entry(&wanted.group).or_default().push(wanted.plural.clone());
    }
    kinds
}

/// The names of Secrets on the source; none if they cannot be known.
fn uploaded(settings: &Settings) -> Vec<String> {
    let mut remotes: Vec<_> = settings.remotes.iter().map(|remote| &*remote.name).collect();
    if !settings.mapping.resource_suffix.contains(CLUSTER) {
        // Any will do.
        remotes = vec![""];
    } else if settings.registry.is_some() {
        remotes.clear();
    }
    let names = remotes.iter().map(|remote| settings.mapping.names(remote));
    names
        .flat_map(|names| settings.secrets.iter().map(move |secret| names.source("", secret).1))
        .collect()
}

fn role(text: &mut String, name: &str, namespace: Option<&str>, rules: &[Rule]) {
    if !text.is_empty() {
        *text += "---\n";
    }
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    *text += "apiVersion: rbac.authorization.k8s.io/v1\n";
    // Writing into a String cannot fail.
    let _ = write!(text, "kind: {kind}\nmetadata:\n  name: {name}\n");
    if let Some(namespace) = namespace {
        let _ = writeln!(text, "  namespace: {}", scalar(namespace));
    }
    *text += "rules:\n";
    for rule in rules {
        let _ = writeln!(text, "  - apiGroups: [{}]", scalar(&rule.group));
        let _ = writeln!(text, "    resources: {}", sequence(&rule.resources));
        if !rule.names.is_empty() {
            let _ = writeln!(text, "    resourceNames: {}", sequence(&rule.names));
        }
        let _ = writeln!(text, "    verbs: {}", sequence(&rule.verbs));
    }
}

fn sequence(items: &[impl AsRef<str>]) -> String {
    let items: Vec<_> = items.iter().map(|item| scalar(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// A name as YAML has it: with quotes where it would be none, but a number, truth or nothing.
fn scalar(name: &str) -> String {
    const WORDS: [&str; 9] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes"];
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase()) && !WORDS.contains(&name);
    if plain { name.to_owned() } else { format!("{name:?}") }
}

#[cfg(test)]
mod tests;
