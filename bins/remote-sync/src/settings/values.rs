//! Values of single flags.

use apiclient::{
    client::Propagation,
    resource::{valid_key, valid_label, valid_name},
};
use sidecar::flags::{Flags, duration};

use super::{
    AdoptPolicy, Election, Explained, NamespacePolicy, Operation, OrphanPolicy, OrphanSettings,
    Track,
};
use crate::{
    connection::ProbeTiming,
    model::{
        annotations::{AnnotationKeys, Uid},
        discovery::ResourceArg,
        key::PerKind,
        known_clusters::AcceptedIdentity,
        mapping::NameMapping,
    },
};

/// More worker threads for a remote must be a mistake.
pub(super) const MAX_WORKERS: i64 = 256;
/// A cached object takes a few hundred bytes: more would not fit in memory.
pub(super) const MAX_OBJECTS: i64 = 10_000_000;
/// Far more than a server grants to one client.
pub(super) const MAX_REQUESTS: i64 = 1_000_000;

pub(super) const PROPAGATION: [(&str, Propagation); 3] = [
    ("Foreground", Propagation::Foreground),
    ("Background", Propagation::Background),
    ("Orphan", Propagation::Orphan),
];

pub(super) const TRACK: [(&str, Track); 2] = [("source", Track::Source), ("target", Track::Target)];

pub(super) const ADOPT: [(&str, AdoptPolicy); 3] =
    [("never", AdoptPolicy::Never), ("equal", AdoptPolicy::Equal), ("always", AdoptPolicy::Always)];

pub(super) fn operation(
    flags: &Flags,
    resources: &PerKind<ResourceArg>,
) -> Result<Operation, String> {
    let once = flags.once()?;
    let tasks = [
        once.map(Operation::Once),
        flags.switch("cleanup").then_some(Operation::Cleanup),
        explained(flags, resources)?.map(Operation::Explain),
        flags.switch("print-rbac").then_some(Operation::Run),
    ];
    let mut tasks = tasks.into_iter().flatten();
    match (tasks.next(), tasks.next()) {
        (_, Some(_)) => Err("-once, -cleanup, -explain and -print-rbac exclude each other".into()),
        (operation, None) => Ok(operation.unwrap_or(Operation::Run)),
    }
}

fn explained(flags: &Flags, resources: &PerKind<ResourceArg>) -> Result<Option<Explained>, String> {
    let Some(text) = flags.some("explain") else { return Ok(None) };
    let (resource, object) = text.split_once(' ').unwrap_or((text, ""));
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    if !valid_name(name) || !(namespace.is_empty() || valid_label(namespace)) {
        return Err(format!("-explain must be KIND NAMESPACE/NAME, or KIND NAME, got {text:?}"));
    }
    let wanted = ResourceArg::parse(resource)?;
    let found = resources.iter().find(|(_, known)| known.same(&wanted));
    let (kind, known) =
        found.ok_or_else(|| format!("-explain: -resource does not name {resource}"))?;
    let (resource, namespace, name) = (known.to_string(), namespace.to_owned(), name.to_owned());
    Ok(Some(Explained { kind, resource, namespace, name }))
}

pub(super) fn one_of<T: Copy>(
    flags: &Flags,
    name: &str,
    choices: &[(&str, T)],
) -> Result<T, String> {
    let given = flags.text(name);
    let found = choices.iter().find(|(choice, _)| *choice == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let choices: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
        format!("-{name} must be {}, got {given:?}", choices.join(" or "))
    })
}

pub(super) fn number<T: TryFrom<i64>>(
    flags: &Flags,
    name: &str,
    least: i64,
    most: i64,
) -> Result<T, String> {
    let given = flags.number(name);
    Some(given)
        .filter(|given| (least..=most).contains(given))
        .and_then(|given| T::try_from(given).ok())
        .ok_or_else(|| format!("-{name} must be a number from {least} to {most}, got {given}"))
}

pub(super) fn resources(flags: &Flags) -> Result<Vec<ResourceArg>, String> {
    let mut resources: Vec<ResourceArg> = Vec::new();
    for text in flags.list("resource") {
        let wanted = ResourceArg::parse(text)?;
        if resources.iter().any(|other| other.same(&wanted)) {
            return Err(format!("-resource names {wanted} twice"));
        }
        resources.push(wanted);
    }
    if resources.is_empty() {
        return Err("-resource is required".into());
    }
    Ok(resources)
}

pub(super) fn secrets(flags: &Flags) -> Result<Vec<String>, String> {
    names(flags, "local-secret-name", valid_name, "a valid object name")
}

pub(super) fn secret_metadata(flags: &Flags) -> Result<Vec<String>, String> {
    names(flags, "secret-metadata", valid_key, "a key of labels and annotations")
}

/// The names in a list, without repetitions.
fn names(
    flags: &Flags,
    flag: &str,
    valid: fn(&str) -> bool,
    what: &str,
) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for name in flags.list(flag).into_iter().map(str::to_owned) {
        if !valid(&name) {
            return Err(format!("-{flag} {name:?} is not {what}"));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

pub(super) fn mapping(flags: &Flags) -> Result<NameMapping, String> {
    let text = |name| flags.text(name).to_owned();
    let mut sources = names(flags, "source-namespace", valid_label, "the name of a namespace")?;
    if sources.len() > 1 {
        return Err("-source-namespace must be one namespace: run an instance for each".into());
    }
    let source_namespace = sources.pop();
    Ok(NameMapping {
        resource_suffix: text("remote-resource-suffix"),
        namespace_suffix: text("local-namespace-suffix"),
        namespace_prefix: text("namespace-prefix"),
        target_namespace: target_namespace(flags, source_namespace.is_some())?,
        source_namespace,
    })
}

/// From two namespaces objects of one name would have the same target, which would not say whose it is.
fn target_namespace(flags: &Flags, of_one: bool) -> Result<Option<String>, String> {
    let Some(target) = flags.some("target-namespace") else { return Ok(None) };
    if !valid_label(target) {
        return Err(format!("-target-namespace {target:?} is not the name of a namespace"));
    }
    if flags.some("local-namespace-suffix").is_some() {
        return Err("-target-namespace and -local-namespace-suffix exclude each other".into());
    }
    match of_one {
        true => Ok(Some(target.to_owned())),
        false => Err("-target-namespace needs a -source-namespace".into()),
    }
}

pub(super) fn keys(prefix: &str) -> Result<AnnotationKeys, String> {
    if valid_name(prefix) {
        return Ok(AnnotationKeys::new(prefix));
    }
    Err(format!("-annotation-prefix {prefix:?} is not a DNS name"))
}

/// Names without a domain are reserved for Kubernetes itself
/// (apimachinery `pkg/api/validation/objectmeta.go`, ValidateFinalizerName).
pub(super) fn finalizer(flags: &Flags, prefix: &str) -> Result<String, String> {
    let default = || format!("{prefix}/sync-local");
    let finalizer = flags.some("finalizer").map_or_else(default, str::to_owned);
    if finalizer.contains('/') && valid_key(&finalizer) {
        return Ok(finalizer);
    }
    Err(format!(
        "-finalizer {finalizer:?} is not a DNS name, a slash and a name of up to 63 characters"
    ))
}

pub(super) fn orphans(flags: &Flags) -> Result<OrphanSettings, String> {
    let policies = [("confirm", OrphanPolicy::Confirm), ("keep", OrphanPolicy::Keep)];
    let policy = one_of(flags, "orphan-policy", &policies)?;
    let given = flags.text("max-deletions");
    let rate = given.split_once('/').and_then(|(most, within)| {
        let most = most.parse().ok().filter(|most| *most > 0)?;
        Some((most, duration(within).filter(|within| !within.is_zero())?))
    });
    let (most, within) = rate
        .ok_or_else(|| format!("-max-deletions must be N/TIME, both above zero, got {given:?}"))?;
    Ok(OrphanSettings { policy, grace: flags.duration("orphan-grace"), most, within })
}

/// One that nobody creates for targets is not deleted with them either.
pub(super) fn namespaces(flags: &Flags) -> Result<NamespacePolicy, String> {
    let policies = [("never", NamespacePolicy::Never), ("empty", NamespacePolicy::Empty)];
    match one_of(flags, "namespace-policy", &policies)? {
        NamespacePolicy::Empty if flags.some("target-namespace").is_some() => {
            Err("-namespace-policy empty and -target-namespace exclude each other".into())
        }
        policy => Ok(policy),
    }
}

/// Clusters that replaced those of remotes.
pub(super) fn accepted(flags: &Flags) -> Result<Vec<AcceptedIdentity>, String> {
    let parse = |text: &str| {
        let (remote, uids) = text.split_once('=')?;
        let (old, new) = match uids.split_once(':') {
            Some((old, new)) => (Some(Uid::parse(old)?), new),
            None => (None, uids),
        };
        let remote = Some(remote).filter(|remote| valid_label(remote))?.to_owned();
        Some(AcceptedIdentity { remote, old, new: Uid::parse(new)? })
    };
    let wrong = |text| {
        format!(
            "-accept-identity must be NAME=UID or NAME=OLD:UID, with uids of kube-system, got {text:?}"
        )
    };
    let all = flags.list("accept-identity").into_iter();
    all.map(|text| parse(text).ok_or_else(|| wrong(text))).collect()
}

/// A lost cluster is tried again after three intervals, as clustercache does at its defaults.
pub(super) fn probes(flags: &Flags) -> Result<ProbeTiming, String> {
    let interval = flags.period("probe-interval")?;
    let timeout = flags.period("probe-timeout")?;
    Ok(ProbeTiming { retry: 3 * interval, interval, timeout })
}

/// None for tasks that end: somebody waits for them.
pub(super) fn election(
    flags: &Flags,
    operation: &Operation,
    namespace: Option<&str>,
) -> Result<Option<Election>, String> {
    let timing = sidecar::leadership::timing(flags)?;
    let name = flags.text("leader-election-name");
    if !valid_name(name) {
        return Err(format!("-leader-election-name {name:?} is not a valid object name"));
    }
    let wanted = flags.switch("leader-election") && !flags.switch("dry-run");
    if !wanted || *operation != Operation::Run {
        return Ok(None);
    }
    let namespace =
        namespace.ok_or("-leader-election needs a namespace: set -namespace or POD_NAMESPACE")?;
    Ok(Some(Election { namespace: namespace.to_owned(), name: name.to_owned(), timing }))
}
