//! Values of single flags.

use std::time::Duration;

use apiclient::{
    client::Propagation,
    resource::{valid_key, valid_label, valid_name},
};
use sidecar::flags::{Flags, duration};

use crate::model::{
    annotations::AnnotationKeys,
    discovery::ResourceArg,
    key::{KindIndex, NameMapping},
    object::Role,
    rules::{FieldPath, FieldRules},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Run,
    /// Runs until everything is in sync, but no longer than this.
    Once(Duration),
    Cleanup,
    Explain(Explained),
}

/// An object to explain: a source, or a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Explained {
    pub(crate) kind: KindIndex,
    /// Empty for a cluster-scoped object.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrphanSettings {
    /// How long a target must have been an orphan before deletion; `None` keeps orphans.
    pub(crate) grace: Option<Duration>,
    /// The most deletions of a kind for a remote within `within`.
    pub(crate) most: u32,
    pub(crate) within: Duration,
}

/// The values of a flag, by word.
type Words<T> = &'static [(&'static str, T)];

/// The role of local objects.
pub(super) const DIRECTION: Words<Role> = &[("pull", Role::Target), ("push", Role::Source)];
pub(super) const PROPAGATION: Words<Propagation> = &[
    ("Foreground", Propagation::Foreground),
    ("Background", Propagation::Background),
    ("Orphan", Propagation::Orphan),
];

pub(super) fn one_of<T: Copy>(flags: &Flags, name: &str, words: Words<T>) -> Result<T, String> {
    let given = flags.text(name);
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("-{name} must be {}, got {given:?}", words.join(" or "))
    })
}

/// All values of a list flag, read by `parse`; `form` describes the syntax.
pub(super) fn list<T>(
    flags: &Flags,
    name: &str,
    form: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, String> {
    let wrong = |text: &str| format!("-{name} must be {form}, got {text:?}");
    let all = flags.list(name).into_iter();
    all.map(|text| parse(text).ok_or_else(|| wrong(text))).collect()
}

pub(super) fn secrets(flags: &Flags) -> Result<Vec<String>, String> {
    let valid = |text: &str| valid_name(text).then(|| text.to_owned());
    let mut names = Vec::new();
    for name in list(flags, "target-secret-name", "an object's name", valid)? {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

pub(super) fn operation(flags: &Flags, resources: &[ResourceArg]) -> Result<Operation, String> {
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

fn explained(flags: &Flags, resources: &[ResourceArg]) -> Result<Option<Explained>, String> {
    let Some(text) = flags.some("explain") else { return Ok(None) };
    let (resource, object) = text.split_once(' ').unwrap_or((text, ""));
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    if !valid_name(name) || !(namespace.is_empty() || valid_label(namespace)) {
        return Err(format!("-explain must be KIND NAMESPACE/NAME, or KIND NAME, got {text:?}"));
    }
    let wanted = ResourceArg::parse(resource)?;
    let kind = resources.iter().position(|known| known.same(&wanted));
    let kind = kind.ok_or_else(|| format!("-explain: -resource does not name {resource}"))?;
    Ok(Some(Explained { kind, namespace: namespace.to_owned(), name: name.to_owned() }))
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
    match resources.is_empty() {
        true => Err("-resource is required".into()),
        false => Ok(resources),
    }
}

pub(super) fn rules(flags: &Flags, resources: &[ResourceArg]) -> Result<Vec<FieldRules>, String> {
    let form = "KIND:POINTER, with a JSON pointer to content such as /spec/replicas";
    let ignored = list(flags, "ignore-field", form, |text| {
        let (kind, pointer) = text.split_once(':')?;
        Some((ResourceArg::parse(kind).ok()?, FieldPath::parse(pointer)?))
    })?;
    let known = |kind: &ResourceArg| resources.iter().any(|resource| resource.same(kind));
    if let Some((kind, _)) = ignored.iter().find(|(kind, _)| !known(kind)) {
        return Err(format!("-ignore-field: -resource does not name {kind}"));
    }
    let of_kind = |resource: &ResourceArg| {
        let ignored = ignored.iter().filter(|(kind, _)| kind.same(resource));
        FieldRules { ignored: ignored.map(|(_, path)| path.clone()).collect() }
    };
    Ok(resources.iter().map(of_kind).collect())
}

pub(super) fn mapping(flags: &Flags) -> Result<NameMapping, String> {
    let namespace = |name| match flags.some(name) {
        Some(namespace) if !valid_label(namespace) => {
            Err(format!("-{name} must be the name of a namespace, got {namespace:?}"))
        }
        namespace => Ok(namespace.map(str::to_owned)),
    };
    let (source, target) = (namespace("source-namespace")?, namespace("target-namespace")?);
    if target.is_some() {
        for excluded in ["target-namespace-suffix", "namespace-policy"] {
            // Namespaces that are never created are not deleted either.
            if !["", "never"].contains(&flags.text(excluded)) {
                return Err(format!("-target-namespace and -{excluded} exclude each other"));
            }
        }
        // Objects with the same name in two namespaces would share a target, whose name would not reveal its source.
        if source.is_none() {
            return Err("-target-namespace needs a -source-namespace".into());
        }
    }
    let text = |name| flags.text(name).to_owned();
    Ok(NameMapping {
        resource_suffix: text("source-name-suffix"),
        namespace_suffix: text("target-namespace-suffix"),
        namespace_prefix: text("namespace-prefix"),
        target_namespace: target,
        source_namespace: source,
    })
}

/// The annotations and the finalizer, in one domain. Names without a domain are reserved for Kubernetes (apimachinery
/// `pkg/api/validation/objectmeta.go`, ValidateFinalizerName).
pub(super) fn keys(flags: &Flags) -> Result<(AnnotationKeys, String), String> {
    let finalizer = flags.text("finalizer");
    match finalizer.split_once('/').filter(|_| valid_key(finalizer)) {
        Some((domain, _)) => Ok((AnnotationKeys::new(domain), finalizer.to_owned())),
        None => Err(format!(
            "-finalizer must be a DNS name, a slash and a name of up to 63 characters, got {finalizer:?}"
        )),
    }
}

pub(super) fn orphans(flags: &Flags) -> Result<OrphanSettings, String> {
    let grace = match flags.text("orphan-grace") {
        "never" => None,
        given => Some(duration(given).ok_or_else(|| {
            format!("-orphan-grace must be a time such as 5m, or never, got {given:?}")
        })?),
    };
    let given = flags.text("max-deletions");
    let rate = given.split_once('/').and_then(|(most, within)| {
        let most = most.parse().ok().filter(|most| *most > 0)?;
        Some((most, duration(within).filter(|within| !within.is_zero())?))
    });
    let (most, within) = rate
        .ok_or_else(|| format!("-max-deletions must be N/TIME, both above zero, got {given:?}"))?;
    Ok(OrphanSettings { grace, most, within })
}
