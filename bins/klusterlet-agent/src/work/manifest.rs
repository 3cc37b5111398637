//! Manifests of a work: the object of each, and the work's options for it.

use apiclient::{api::null_as_default, discovery::ApiResource};
use serde::Deserialize;

use super::{
    io::WorkIo,
    objects::{
        ConditionRule, FeedbackRule, ManifestConfigOption, ManifestResourceMeta,
        ResourceIdentifier, ServerSideApplyConfig, digest,
    },
    watches::Scrape,
};

/// Maximum number of a manifest's condition rules: one option may match all manifests.
const MAX_CONDITION_RULES: usize = 16;

/// A manifest, with its kind on the cluster or the reason why it cannot be applied.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) meta: ManifestResourceMeta,
    pub(crate) digest: u64,
    pub(crate) kind: Result<ApiResource, String>,
}

/// The fields that identify a manifest's object: the whole manifest is parsed only while it is applied.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    #[serde(deserialize_with = "null_as_default")]
    api_version: String,
    #[serde(deserialize_with = "null_as_default")]
    kind: String,
    #[serde(deserialize_with = "null_as_default")]
    metadata: NamedMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedMeta {
    #[serde(deserialize_with = "null_as_default")]
    name: String,
    #[serde(deserialize_with = "null_as_default")]
    namespace: String,
}

/// How an existing object is updated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Strategy {
    Update,
    CreateOnly,
    ServerSideApply(ServerSideApplyConfig),
    ReadOnly,
    /// A strategy that this agent does not support, with the reason.
    Unsupported(String),
}

impl Manifest {
    pub(crate) fn read(io: &mut dyn WorkIo, ordinal: usize, text: &str) -> Self {
        let TypeMeta { api_version, kind, metadata } =
            serde_json::from_str(text).unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let mut meta = ManifestResourceMeta {
            ordinal,
            group: group.to_owned(),
            version: version.to_owned(),
            kind,
            name: metadata.name,
            namespace: metadata.namespace,
            ..ManifestResourceMeta::default()
        };
        let mut kind = io.find_kind(&api_version, &meta.kind).map_err(|e| e.to_string());
        if let Ok(ApiResource { resource, namespaced, .. }) = &kind {
            meta.resource = resource.plural.to_string();
            if !namespaced {
                meta.namespace.clear();
            }
        }
        if kind.is_ok() && ![&meta.name, &meta.namespace].into_iter().all(|part| is_segment(part)) {
            kind = Err("the name or namespace is not a path segment".to_owned());
        }
        if kind.is_ok() && meta.name.is_empty() {
            kind = Err("the manifest has no name".to_owned());
        }
        Self { meta, digest: digest(text), kind }
    }

    pub(crate) fn identifier(&self) -> ResourceIdentifier {
        let ManifestResourceMeta { group, resource, namespace, name, .. } = self.meta.clone();
        ResourceIdentifier { group, resource, namespace, name }
    }
}

/// Returns whether a name is a safe path segment (apimachinery `pkg/api/validation/path`). Names of roles may contain
/// a colon.
fn is_segment(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:@".contains(c);
    !matches!(name, "." | "..") && name.chars().all(plain)
}

/// Returns the options for an object. For each field, the first option with it decides (ocm `helpers.go:369-411`).
fn matching<'a>(
    configs: &'a [ManifestConfigOption],
    object: &ResourceIdentifier,
) -> impl Iterator<Item = &'a ManifestConfigOption> {
    configs.iter().filter(|config| matches(&config.resource_identifier, object))
}

pub(crate) fn feedback_rules<'a>(
    configs: &'a [ManifestConfigOption],
    object: &ResourceIdentifier,
) -> &'a [FeedbackRule] {
    let mut rules = matching(configs, object).map(|config| &*config.feedback_rules);
    rules.find(|rules| !rules.is_empty()).unwrap_or_default()
}

pub(crate) fn condition_rules<'a>(
    configs: &'a [ManifestConfigOption],
    object: &ResourceIdentifier,
) -> &'a [ConditionRule] {
    let mut rules = matching(configs, object).map(|config| &*config.condition_rules);
    let rules = rules.find(|rules| !rules.is_empty()).unwrap_or_default();
    rules.get(..MAX_CONDITION_RULES).unwrap_or(rules)
}

/// Returns how soon to report changes of the object's status: of several options with rules, the soonest decides.
pub(crate) fn scrape(configs: &[ManifestConfigOption], object: &ResourceIdentifier) -> Scrape {
    let with_rules = matching(configs, object)
        .filter(|config| !(config.feedback_rules.is_empty() && config.condition_rules.is_empty()));
    let scrape = with_rules.map(|config| match &*config.feedback_scrape_type {
        "Watch" => Scrape::Watch,
        _ => Scrape::Poll,
    });
    scrape.max().unwrap_or_default()
}

pub(crate) fn strategy(configs: &[ManifestConfigOption], object: &ResourceIdentifier) -> Strategy {
    let Some(strategy) =
        matching(configs, object).find_map(|config| config.update_strategy.as_ref())
    else {
        return Strategy::Update;
    };
    match &*strategy.kind {
        "Update" | "" => Strategy::Update,
        "CreateOnly" => Strategy::CreateOnly,
        "ServerSideApply" => Strategy::ServerSideApply(strategy.server_side_apply.clone()),
        "ReadOnly" => Strategy::ReadOnly,
        other => Strategy::Unsupported(format!("the update strategy {other} is not supported")),
    }
}

fn matches(pattern: &ResourceIdentifier, object: &ResourceIdentifier) -> bool {
    (&pattern.group, &pattern.resource) == (&object.group, &object.resource)
        && wildcard(&pattern.namespace, &object.namespace)
        && wildcard(&pattern.name, &object.name)
}

/// Matches a pattern, in which `*` stands for any text.
fn wildcard(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::objects::UpdateStrategy;

    #[test]
    fn wildcards_stand_for_any_text() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*b", "aab", true),
            ("ab*b", "ab", false),
            ("a", "ab", false),
            ("", "a", false),
        ] {
            assert_eq!(wildcard(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn first_option_with_a_strategy_decides() {
        let option = |name: &str, kind: Option<&str>| ManifestConfigOption {
            resource_identifier: ResourceIdentifier {
                resource: "configmaps".into(),
                namespace: "*".into(),
                name: name.into(),
                ..Default::default()
            },
            update_strategy: kind
                .map(|kind| UpdateStrategy { kind: kind.into(), ..Default::default() }),
            ..Default::default()
        };
        let configs = [option("a", None), option("a*", Some("CreateOnly")), option("*", Some("X"))];
        let of = |name: &str| {
            let (resource, namespace) = ("configmaps".to_owned(), "n".to_owned());
            let (group, name) = (String::new(), name.to_owned());
            strategy(&configs, &ResourceIdentifier { group, resource, namespace, name })
        };
        assert_eq!(of("a"), Strategy::CreateOnly);
        assert!(matches!(of("b"), Strategy::Unsupported(_)));
        assert_eq!(strategy(&[], &ResourceIdentifier::default()), Strategy::Update);
    }

    #[test]
    fn names_of_roles_may_hold_a_colon_and_no_name_leaves_its_path() {
        assert!(is_segment("system:a.b-c") && is_segment(""));
        for bad in ["..", ".", "a/b", "a?b", "a%2fb", "a#b", "a b"] {
            assert!(!is_segment(bad), "{bad}");
        }
    }
}
