//! Label and field selectors.

use serde_json::Value;

use crate::{resources::Resource, status::Status};

/// The selection of a list or watch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

/// A label's key, its value if any, and whether the object must have it.
#[derive(Debug, Clone, PartialEq)]
struct Requirement(String, Option<String>, bool);

impl Selector {
    pub(crate) fn new(
        labels: Option<&str>,
        fields: Option<&str>,
        resource: &Resource,
    ) -> Result<Self, Status> {
        let labels = labels.unwrap_or_default().split(',').filter(|term| !term.is_empty());
        let labels = labels.map(requirement).collect::<Result<_, _>>()?;
        let fields = fields.unwrap_or_default().split(',').filter(|term| !term.is_empty());
        let fields = fields.map(|term| field(term, resource)).collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.matches(object))
            && self
                .fields
                .iter()
                .all(|(path, equal, wanted)| (lookup(object, path) == wanted.as_str()) == *equal)
    }
}

impl Requirement {
    fn matches(&self, object: &Value) -> bool {
        let Self(key, wanted, has) = self;
        let label = object["metadata"]["labels"].get(key).and_then(Value::as_str);
        let found = label.is_some_and(|label| wanted.as_ref().is_none_or(|wanted| wanted == label));
        found == *has
    }
}

/// Parses `key`, `!key`, `key=value` or `key!=value`; sets of values are not supported.
fn requirement(term: &str) -> Result<Requirement, Status> {
    let (key, value, has) = match term.split_once("!=") {
        Some((key, value)) => (key, Some(value), false),
        None => match term.split_once('=') {
            Some((key, value)) => (key, Some(value), true),
            None => (term.trim_start_matches('!'), None, !term.starts_with('!')),
        },
    };
    if key.contains(char::is_whitespace) {
        return Err(unparsable(term));
    }
    Ok(Requirement(key.into(), value.map(str::to_owned), has))
}

fn unparsable(term: &str) -> Status {
    Status::bad_request(format!("unable to parse requirement: {term:?}"))
}

/// Parses a field selector; rejects unsupported fields in the real server's words.
fn field(term: &str, resource: &Resource) -> Result<(String, bool, String), Status> {
    let (path, equal, value) = term
        .split_once("!=")
        .map(|(path, value)| (path, false, value))
        .or_else(|| term.split_once('=').map(|(path, value)| (path, true, value)))
        .ok_or_else(|| {
            Status::bad_request(format!("invalid selector: '{term}'; can't understand '{term}'"))
        })?;
    let known = match resource.plural.as_str() {
        _ if !resource.builtin => &[][..],
        "secrets" => &["type"][..],
        "pods" => &["status.phase", "spec.nodeName", "spec.serviceAccountName"][..],
        "namespaces" => &["status.phase"][..],
        "certificatesigningrequests" => &["spec.signerName"][..],
        "events" => &[
            "reason",
            "type",
            "reportingComponent",
            "source",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.uid",
        ][..],
        _ => &[][..],
    };
    if path == "metadata.name" || path == "metadata.namespace" || known.contains(&path) {
        return Ok((path.into(), equal, value.into()));
    }
    Err(Status::bad_request(format!("field label not supported: {path}")))
}

fn lookup<'a>(object: &'a Value, path: &str) -> &'a str {
    let found = path.split('.').try_fold(object, |place, step| place.get(step));
    found.and_then(Value::as_str).unwrap_or_default()
}
