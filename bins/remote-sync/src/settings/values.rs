//! Values of single flags.

use apiclient::{
    client::Propagation,
    resource::{valid_key, valid_label, valid_name},
};
use sidecar::flags::{Flags, duration};

use super::{
    AdoptPolicy, Direction, Explained, NamespacePolicy, Operation, OrphanPolicy, OrphanSettings,
    Track,
};
use crate::model::{
    annotations::{AnnotationKeys, Uid},
    discovery::ResourceArg,
    key::PerKind,
    known_clusters::AcceptedIdentity,
    mapping::NameMapping,
    rules::{FieldPath, FieldRules},
};

/// The words of a flag, each with its value.
type Words<T> = &'static [(&'static str, T)];

pub(super) const DIRECTION: Words<Direction> =
    &[("pull", Direction::Pull), ("push", Direction::Push)];
pub(super) const PROPAGATION: Words<Propagation> = &[
    ("Foreground", Propagation::Foreground),
    ("Background", Propagation::Background),
    ("Orphan", Propagation::Orphan),
];
pub(super) const TRACK: Words<Track> = &[("source", Track::Source), ("target", Track::Target)];
pub(super) const ADOPT: Words<AdoptPolicy> = &[
    ("never", AdoptPolicy::Never),
    ("equal", AdoptPolicy::Equal),
    ("always", AdoptPolicy::Always),
];
pub(super) const NAMESPACES: Words<NamespacePolicy> =
    &[("never", NamespacePolicy::Never), ("empty", NamespacePolicy::Empty)];
const ORPHANS: Words<OrphanPolicy> =
    &[("confirm", OrphanPolicy::Confirm), ("keep", OrphanPolicy::Keep)];

pub(super) fn one_of<T: Copy>(flags: &Flags, name: &str, words: Words<T>) -> Result<T, String> {
    let given = flags.text(name);
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("-{name} must be {}, got {given:?}", words.join(" or "))
    })
}

pub(super) fn operation(
    flags: &Flags,
    resources: &PerKind<ResourceArg>,
) -> Result<Operation, String> {
    let tasks = [
        flags.once()?.map(Operation::Once),
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

pub(super) fn resources(flags: &Flags) -> Result<PerKind<ResourceArg>, String> {
    let mut resources: Vec<ResourceArg> = Vec::new();
    for text in flags.list("resource") {
        let wanted = ResourceArg::parse(text)?;
        if resources.iter().any(|other| other.same(&wanted)) {
            return Err(format!("-resource names {wanted} twice"));
        }
        resources.push(wanted);
    }
    match resources.is_empty() {
        true => Err("-resource is required".into()),
        false => Ok(resources.into()),
    }
}

/// The rules for the fields of each of these kinds.
pub(super) fn rules(
    flags: &Flags,
    resources: &PerKind<ResourceArg>,
) -> Result<PerKind<FieldRules>, String> {
    let field = |text: &str| {
        let parsed = text.split_once(':').and_then(|(kind, pointer)| {
            Some((ResourceArg::parse(kind).ok()?, FieldPath::parse(pointer)?))
        });
        parsed.ok_or_else(|| {
            format!(
                "-ignore-field must be KIND:POINTER, with a JSON pointer to content such as /spec/replicas, got {text:?}"
            )
        })
    };
    let ignored: Vec<_> =
        flags.list("ignore-field").into_iter().map(field).collect::<Result<_, _>>()?;
    let known = |kind: &ResourceArg| resources.iter().any(|(_, resource)| resource.same(kind));
    if let Some((kind, _)) = ignored.iter().find(|(kind, _)| !known(kind)) {
        return Err(format!("-ignore-field: -resource does not name {kind}"));
    }
    Ok(resources.map(|resource| {
        let ignored = ignored.iter().filter(|(kind, _)| kind.same(resource));
        FieldRules { ignored: ignored.map(|(_, path)| path.clone()).collect() }
    }))
}

pub(super) fn secrets(flags: &Flags) -> Result<Vec<String>, String> {
    names(flags, "target-secret-name", valid_name, "a valid object name")
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
    let (source_namespace, target_namespace) = (sources.pop(), flags.some("target-namespace"));
    if let Some(target) = target_namespace {
        if !valid_label(target) {
            return Err(format!("-target-namespace {target:?} is not the name of a namespace"));
        }
        for excluded in ["target-namespace-suffix", "namespace-policy"] {
            // One that nobody creates for targets is not deleted with them either.
            if !["", "never"].contains(&flags.text(excluded)) {
                return Err(format!("-target-namespace and -{excluded} exclude each other"));
            }
        }
        // From two namespaces objects of one name would have the same target, which would not say whose it is.
        if source_namespace.is_none() {
            return Err("-target-namespace needs a -source-namespace".into());
        }
    }
    Ok(NameMapping {
        resource_suffix: text("source-name-suffix"),
        namespace_suffix: text("target-namespace-suffix"),
        namespace_prefix: text("namespace-prefix"),
        target_namespace: target_namespace.map(str::to_owned),
        source_namespace,
    })
}

/// The annotations and the finalizer.
pub(super) fn keys(flags: &Flags) -> Result<(AnnotationKeys, String), String> {
    let prefix = flags.text("annotation-prefix");
    if !valid_name(prefix) {
        return Err(format!("-annotation-prefix {prefix:?} is not a DNS name"));
    }
    let default = format!("{prefix}/sync-local");
    let finalizer = flags.some("finalizer").unwrap_or(&default);
    // Names without a domain are reserved for Kubernetes itself (apimachinery `pkg/api/validation/objectmeta.go`,
    // ValidateFinalizerName).
    if !finalizer.contains('/') || !valid_key(finalizer) {
        return Err(format!(
            "-finalizer {finalizer:?} is not a DNS name, a slash and a name of up to 63 characters"
        ));
    }
    Ok((AnnotationKeys::new(prefix), finalizer.to_owned()))
}

pub(super) fn orphans(flags: &Flags) -> Result<OrphanSettings, String> {
    let policy = one_of(flags, "orphan-policy", ORPHANS)?;
    let given = flags.text("max-deletions");
    let rate = given.split_once('/').and_then(|(most, within)| {
        let most = most.parse().ok().filter(|most| *most > 0)?;
        Some((most, duration(within).filter(|within| !within.is_zero())?))
    });
    let (most, within) = rate
        .ok_or_else(|| format!("-max-deletions must be N/TIME, both above zero, got {given:?}"))?;
    Ok(OrphanSettings { policy, grace: flags.duration("orphan-grace"), most, within })
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
