//! Label and field selectors.

use serde_json::Value;

use crate::{resources::Resource, status::Status};

/// The selection of a list or watch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Selector {
    pub(crate) fn new(
        labels: Option<&str>,
        fields: Option<&str>,
        resource: &Resource,
    ) -> Result<Self, Status> {
        let labels = split_top(labels.unwrap_or_default());
        let labels = labels.iter().map(|term| requirement(term)).collect::<Result<_, _>>()?;
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
        let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
        match self {
            Self::In(key, values) => {
                label(key).is_some_and(|found| values.iter().any(|v| v == found))
            }
            Self::NotIn(key, values) => {
                label(key).is_none_or(|found| values.iter().all(|v| v != found))
            }
            Self::Exists(key) => label(key).is_some(),
            Self::Missing(key) => label(key).is_none(),
        }
    }
}

/// Splits at commas outside parentheses.
fn split_top(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let cut = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    text.split(cut).map(str::trim).filter(|term| !term.is_empty()).collect()
}

fn requirement(term: &str) -> Result<Requirement, Status> {
    let owned = |text: &str| text.trim().to_string();
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Requirement::NotIn(owned(key), vec![owned(value)]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Requirement::In(owned(key), vec![owned(value)]));
    }
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Requirement::Missing(owned(key)));
    }
    let Some((head, list)) = term.split_once('(') else {
        let word = !term.contains(char::is_whitespace);
        return word.then(|| Requirement::Exists(owned(term))).ok_or_else(|| unparsable(term));
    };
    let list = list.strip_suffix(')').ok_or_else(|| unparsable(term))?;
    let values = list.split(',').map(owned).collect();
    match head.split_whitespace().collect::<Vec<_>>().as_slice() {
        [key, "in"] => Ok(Requirement::In(owned(key), values)),
        [key, "notin"] => Ok(Requirement::NotIn(owned(key), values)),
        _ => Err(unparsable(term)),
    }
}

fn unparsable(term: &str) -> Status {
    Status::bad_request(format!("unable to parse requirement: {term:?}"))
}

/// A field selector; rejects fields that the real server does not support, in the same words.
fn field(term: &str, resource: &Resource) -> Result<(String, bool, String), Status> {
    let (path, equal, value) = term
        .split_once("!=")
        .map(|(path, value)| (path, false, value))
        .or_else(|| term.split_once("==").map(|(path, value)| (path, true, value)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secrets() -> Resource {
        Resource { builtin: true, ..Resource::custom("", "v1", "secrets", "Secret", true) }
    }

    fn labelled(selector: &str) -> bool {
        let object = json!({"metadata": {"labels": {"a": "1", "x/y": ""}}});
        Selector::new(Some(selector), None, &secrets()).expect("parses").matches(&object)
    }

    #[test]
    fn labels() {
        for yes in
            ["", "a", "a=1", "a==1", "a!=2", "b!=1", "a in (1,2)", "a notin (2), x/y", "!b", "x/y="]
        {
            assert!(labelled(yes), "{yes}");
        }
        for no in ["b", "a=2", "a!=1", "a in (2)", "a notin (1,2)", "!a", "a,b", "b in (1)"] {
            assert!(!labelled(no), "{no}");
        }
        assert!(Selector::new(Some("a is b"), None, &secrets()).is_err());
        assert!(Selector::new(Some("a in (b"), None, &secrets()).is_err());
    }

    #[test]
    fn fields() {
        let object = json!({"metadata": {"name": "n"}, "type": "Opaque"});
        let matches =
            |text: &str| Selector::new(None, Some(text), &secrets()).map(|s| s.matches(&object));
        assert_eq!(matches("metadata.name=n,type=Opaque"), Ok(true));
        assert_eq!(matches("metadata.name!=n"), Ok(false));
        assert!(matches("data.x=1").is_err());
    }
}
