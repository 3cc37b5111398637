//! Status feedback: values of applied objects that a work requests (ocm `pkg/work/spoke/statusfeedback`).

use std::{collections::BTreeSet, fmt::Display};

use serde::Serialize;
use serde_json::Value;

use super::{
    jsonpath::{JsonPath, type_name},
    objects::{FeedbackPath, FeedbackRule, ManifestResourceMeta},
};

/// Maximum length of all values of a work, in bytes: the hub might refuse a longer status.
pub(crate) const MAX_VALUES_LENGTH: usize = 512 << 10;
/// Length of a value besides its name and text, in bytes.
const VALUE_OVERHEAD: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FeedbackValue {
    name: String,
    #[serde(rename = "fieldValue")]
    value: FieldValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
enum FieldValue {
    Integer {
        integer: i64,
    },
    String {
        string: String,
    },
    Boolean {
        boolean: bool,
    },
    JsonRaw {
        #[serde(rename = "jsonRaw")]
        json_raw: String,
    },
}

/// The values of an object, and the error about values that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Feedback {
    pub(crate) values: Vec<FeedbackValue>,
    pub(crate) error: Option<String>,
}

/// Maximum length of a value as raw JSON, in bytes; `None` if the gate `RawFeedbackJsonString` is off.
pub(crate) type RawLimit = Option<usize>;

/// Reads the values of `object`, up to `left` bytes. A value that fails does not affect the others.
pub(crate) fn read(
    rules: &[FeedbackRule],
    meta: &ManifestResourceMeta,
    object: &Value,
    raw: RawLimit,
    left: &mut usize,
) -> Feedback {
    if (&*meta.group, &*meta.resource) == ("", "secrets") {
        let error = Some("values of Secrets are not reported".to_owned());
        return Feedback { values: Vec::new(), error };
    }
    let (mut values, mut errors, mut visits) = (Vec::new(), Vec::new(), 0);
    let mut names = BTreeSet::new();
    for rule in rules {
        let paths = match &*rule.kind {
            "WellKnownStatus" => well_known(meta),
            "JSONPaths" => rule.json_paths.clone(),
            _ => Vec::new(),
        };
        if paths.is_empty() && rule.kind == "WellKnownStatus" {
            let ManifestResourceMeta { group, version, kind, .. } = meta;
            errors.push(format!(
                "cannot find the wellknown statuses for resource with gvk {group}/{version}, Kind={kind}"
            ));
        }
        for path in paths {
            if names.contains(&path.name) {
                // With a repeated name, the hub would refuse the whole status.
                errors.push(format!("the name {} is repeated", path.name));
                continue;
            }
            let value = match value(&path, &meta.version, (object, &mut visits), raw) {
                Ok(Some(value)) => FeedbackValue { name: path.name, value },
                Ok(None) => continue,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            match left.checked_sub(value.length()) {
                Some(rest) => {
                    *left = rest;
                    names.insert(value.name.clone());
                    values.push(value);
                }
                None => errors.push(format!(
                    "the work's values are longer than {MAX_VALUES_LENGTH} bytes, without {}",
                    value.name
                )),
            }
        }
    }
    Feedback { values, error: aggregate(errors) }
}

/// Returns the paths of type WellKnownStatus (ocm `statusfeedback/rules/rule.go`).
fn well_known(meta: &ManifestResourceMeta) -> Vec<FeedbackPath> {
    let paths: &[(&str, &str)] = match (&*meta.group, &*meta.version, &*meta.kind) {
        ("apps", "v1", "Deployment") => &[
            ("ReadyReplicas", ".status.readyReplicas"),
            ("Replicas", ".status.replicas"),
            ("AvailableReplicas", ".status.availableReplicas"),
        ],
        ("apps", "v1", "DaemonSet") => &[
            ("NumberReady", ".status.numberReady"),
            ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
            ("NumberAvailable", ".status.numberAvailable"),
        ],
        ("batch", "v1", "Job") => &[
            ("JobComplete", r#".status.conditions[?(@.type=="Complete")].status"#),
            ("JobSucceeded", ".status.succeeded"),
        ],
        ("", "v1", "Pod") => &[
            ("PodReady", r#".status.conditions[?(@.type=="Ready")].status"#),
            ("PodPhase", ".status.phase"),
        ],
        _ => &[],
    };
    let path = |(name, path): &(&str, &str)| FeedbackPath {
        name: (*name).to_owned(),
        version: String::new(),
        path: (*path).to_owned(),
    };
    paths.iter().map(path).collect()
}

/// Returns the value at a path; `None` if there is none.
fn value(
    FeedbackPath { name, version, path }: &FeedbackPath,
    served: &str,
    (object, visits): (&Value, &mut usize),
    raw: RawLimit,
) -> Result<Option<FieldValue>, String> {
    if !version.is_empty() && version != served {
        return Err(format!(
            "version set in the path {name} is not matched for the related resource"
        ));
    }
    let parsed = JsonPath::parse(path).map_err(|error| {
        format!("failed to parse json path {path} of {name} with error: {error}")
    })?;
    let failed =
        |error: &dyn Display| format!("failed to find value for {name} with error: {error}");
    let found = parsed.find(object, visits).map_err(|error| failed(&error))?;
    let json_raw = match (&*found, raw) {
        ([] | [Value::Null], _) | ([Value::Null, ..], None) => return Ok(None),
        ([one], _) | ([one, ..], None) => match (one, raw) {
            (Value::Bool(boolean), _) => {
                return Ok(Some(FieldValue::Boolean { boolean: *boolean }));
            }
            (Value::String(string), _) => {
                return Ok(Some(FieldValue::String { string: string.clone() }));
            }
            (Value::Number(number), _) if number.is_i64() => {
                return Ok(number.as_i64().map(|integer| FieldValue::Integer { integer }));
            }
            (one, None) => {
                let kind = type_name(one);
                return Err(format!("the type {kind} of the value for {name} is not found"));
            }
            (one, Some(limit)) => raw_json(one, limit),
        },
        (all, Some(limit)) => raw_json(all, limit),
    };
    let json_raw = json_raw.ok_or_else(|| {
        let limit = raw.unwrap_or_default();
        format!(
            "the length of returned json raw string for name {name} is larger than the maximum length {limit}"
        )
    })?;
    Ok(Some(FieldValue::JsonRaw { json_raw }))
}

/// Returns the value as JSON; `None` if that takes more than `limit` bytes.
fn raw_json(value: &(impl Serialize + ?Sized), limit: usize) -> Option<String> {
    let mut json = vec![0; limit];
    let mut rest = &mut *json;
    serde_json::to_writer(&mut rest, value).ok()?;
    let length = limit - rest.len();
    json.truncate(length);
    String::from_utf8(json).ok()
}

/// Joins errors like apimachinery (`pkg/util/errors`).
fn aggregate(mut errors: Vec<String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match &*errors {
        [] => None,
        [error] => Some(error.clone()),
        errors => Some(format!("[{}]", errors.join(", "))),
    }
}

impl FeedbackValue {
    fn length(&self) -> usize {
        let text = match &self.value {
            FieldValue::Integer { .. } | FieldValue::Boolean { .. } => "",
            FieldValue::String { string: text } | FieldValue::JsonRaw { json_raw: text } => text,
        };
        VALUE_OVERHEAD + self.name.len() + text.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(group: &str, kind: &str) -> ManifestResourceMeta {
        let (version, resource) = ("v1".to_owned(), format!("{}s", kind.to_lowercase()));
        let (group, kind) = (group.to_owned(), kind.to_owned());
        ManifestResourceMeta { group, version, kind, resource, ..Default::default() }
    }

    fn by_path(path: &str, object: &Value, raw: RawLimit) -> (Value, Option<String>) {
        let path = FeedbackPath { name: "a".into(), path: path.into(), ..Default::default() };
        let rule = FeedbackRule { kind: "JSONPaths".into(), json_paths: vec![path] };
        let feedback = read(&[rule], &meta("", "Widget"), object, raw, &mut { MAX_VALUES_LENGTH });
        let value =
            feedback.values.first().map_or(Value::Null, |value| json!(value)["fieldValue"].take());
        (value, feedback.error)
    }

    #[test]
    fn well_known_values_are_those_of_upstream() {
        let rule = [FeedbackRule { kind: "WellKnownStatus".into(), ..Default::default() }];
        let status = json!({"status": {
            "readyReplicas": 2, "replicas": 3, "numberReady": 1, "succeeded": 4, "phase": "Running",
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "Complete", "status": "True"}],
        }});
        for (group, kind, names) in [
            ("apps", "Deployment", &["ReadyReplicas", "Replicas"][..]),
            ("apps", "DaemonSet", &["NumberReady"]),
            ("batch", "Job", &["JobComplete", "JobSucceeded"]),
            ("", "Pod", &["PodReady", "PodPhase"]),
            ("apps", "StatefulSet", &[]),
        ] {
            let feedback =
                read(&rule, &meta(group, kind), &status, None, &mut { MAX_VALUES_LENGTH });
            let found: Vec<&str> = feedback.values.iter().map(|value| &*value.name).collect();
            assert_eq!(found, names);
            let error = "cannot find the wellknown statuses for resource with gvk apps/v1, Kind=StatefulSet";
            assert_eq!(feedback.error.as_deref(), names.is_empty().then_some(error));
        }
    }

    #[test]
    fn values_have_upstreams_types_and_sentences() {
        let object =
            json!({"i": 1, "f": 1.5, "s": "x", "b": true, "n": null, "l": [1, 2], "m": {}});
        for (path, value, error) in [
            (".i", json!({"type": "Integer", "integer": 1}), ""),
            (".s", json!({"type": "String", "string": "x"}), ""),
            (".b", json!({"type": "Boolean", "boolean": true}), ""),
            (".n", Value::Null, ""),
            (".missing", Value::Null, ""),
            (".l[*]", json!({"type": "Integer", "integer": 1}), ""),
            (".f", Value::Null, "the type float64 of the value for a is not found"),
            (".m", Value::Null, "the type map[string]interface {} of the value for a is not found"),
            (
                "x",
                Value::Null,
                "failed to parse json path x of a with error: unrecognized identifier x",
            ),
            (
                ".m[0]",
                Value::Null,
                "failed to find value for a with error: map[string]interface {} is not array or slice",
            ),
        ] {
            let error = Some(error.to_owned()).filter(|error| !error.is_empty());
            assert_eq!(by_path(path, &object, None), (value, error), "{path}");
        }
        for (path, value) in [(".l[*]", "[1,2]"), (".l", "[1,2]"), (".f", "1.5"), (".m", "{}")] {
            let value = json!({"type": "JsonRaw", "jsonRaw": value});
            assert_eq!(by_path(path, &object, Some(5)), (value, None), "{path}");
        }
        let error = by_path(".l", &object, Some(4)).1.unwrap();
        assert!(error.ends_with("is larger than the maximum length 4"), "{error}");
    }

    #[test]
    fn secrets_other_versions_and_long_values_are_left_out() {
        let path = |name: &str, version: &str, path: &str| FeedbackPath {
            name: name.into(),
            version: version.into(),
            path: path.into(),
        };
        let json_paths = vec![path("a", "v2", ".a"), path("b", "v1", ".b"), path("c", "", ".a")];
        let rule = [FeedbackRule { kind: "JSONPaths".into(), json_paths }];
        let object = json!({"a": "x", "b": "x".repeat(MAX_VALUES_LENGTH - VALUE_OVERHEAD - 1)});
        let mut left = MAX_VALUES_LENGTH;
        let feedback = read(&rule, &meta("", "Widget"), &object, None, &mut left);
        assert_eq!((feedback.values.len(), left), (1, 0));
        let error = feedback.error.unwrap();
        assert!(error.starts_with("[version set in the path a is not matched"), "{error}");
        assert!(error.ends_with("bytes, without c]"), "{error}");
        let feedback = read(&rule, &meta("", "Secret"), &object, None, &mut left);
        assert_eq!((feedback.values.len(), feedback.error.is_some()), (0, true));
    }

    #[test]
    fn repeated_name_keeps_its_first_value() {
        let json_paths = ["none", "a", "b"].map(|key| FeedbackPath {
            name: "n".into(),
            path: format!(".{key}"),
            ..Default::default()
        });
        let rules = json_paths
            .map(|path| FeedbackRule { kind: "JSONPaths".into(), json_paths: vec![path] });
        let object = json!({"a": "x", "b": "y"});
        let mut left = MAX_VALUES_LENGTH;
        let feedback = read(&rules, &meta("", "Widget"), &object, None, &mut left);
        let value = FieldValue::String { string: "x".into() };
        assert_eq!(feedback.values, [FeedbackValue { name: "n".into(), value }]);
        assert_eq!(feedback.error.as_deref(), Some("the name n is repeated"));
    }
}
