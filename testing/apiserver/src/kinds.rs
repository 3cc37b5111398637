//! Rules of specific kinds beyond the generic ones: defaults on creation, decoding errors, validation. Limited to what
//! clients in this workspace can encounter.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    resources::Resource,
    signer,
    status::{Cause, Status},
    time::now,
    user::User,
};

const SECRET_LIMIT: usize = 1024 * 1024;

/// Sets the fields that the server fills in when an object is created.
pub(crate) fn prepare(resource: &Resource, object: &mut Value, user: &User) {
    let name = object["metadata"]["name"].clone();
    match resource.plural.as_str() {
        _ if !resource.builtin => {}
        "namespaces" => {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        "pods" => object["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"}),
        "poddisruptionbudgets" => {
            object["status"] = json!({
                "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0,
                "expectedPods": 0,
            });
        }
        "certificatesigningrequests" => {
            object["spec"]["username"] = user.name.clone().into();
            object["spec"]["groups"] = json!(user.groups);
            object["status"] = json!({});
        }
        "customresourcedefinitions" => object["status"] = established(&object["spec"]),
        _ => {}
    }
}

/// The status that the real server's controllers set a few milliseconds later.
fn established(spec: &Value) -> Value {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now(),
        })
    };
    let stored = spec["versions"].as_array().into_iter().flatten();
    let stored: Vec<&Value> = stored.filter(|v| v["storage"] == true).map(|v| &v["name"]).collect();
    json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": spec["names"],
        "storedVersions": stored,
    })
}

/// Emulates decoding into the typed object: rejects with 400, and converts write-only fields.
pub(crate) fn decode(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    check_shape(resource, object)?;
    resource.shape(object);
    let reject = |why: String| {
        let (kind, version) = (&resource.kind, &resource.versions[0]);
        Err(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        )))
    };
    let micro_times: &[&str] = match resource.plural.as_str() {
        _ if !resource.builtin => return Ok(()),
        "leases" => &["/spec/renewTime", "/spec/acquireTime"],
        "events" => &["/eventTime"],
        "secrets" => return decode_secret(object).or_else(reject),
        _ => &[],
    };
    for path in micro_times {
        match object.pointer(path) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if is_micro_time(text) => {}
            Some(Value::String(text)) => return reject(format!("cannot parse {text:?}")),
            Some(_) => return reject(format!("{path}: not a string")),
        }
    }
    Ok(())
}

/// Rejects objects of an unexpected shape; later code relies on it.
fn check_shape(resource: &Resource, object: &Value) -> Result<(), Status> {
    let reject = |path: &str| {
        let kind = &resource.kind;
        Err(Status::bad_request(format!(
            "json: cannot unmarshal into Go struct field {kind}.{path}"
        )))
    };
    let is_map =
        |value: Option<&Value>| value.is_none_or(|value| value.is_object() || value.is_null());
    if !object["metadata"].is_object() {
        return reject("metadata");
    }
    for key in ["labels", "annotations"] {
        let map = object["metadata"].get(key);
        let strings = map.and_then(Value::as_object).into_iter().flatten();
        if !is_map(map) || strings.into_iter().any(|(_, value)| !value.is_string()) {
            return reject(&format!("metadata.{key} of type map[string]string"));
        }
    }
    let own: &[&str] =
        if resource.builtin { &["spec", "status", "data", "stringData"] } else { &[] };
    match own.iter().find(|key| !is_map(object.get(**key))) {
        Some(key) => reject(key),
        None => Ok(()),
    }
}

fn decode_secret(object: &mut Value) -> Result<(), String> {
    for value in object["data"].as_object().into_iter().flat_map(|data| data.values()) {
        let text = match value {
            Value::String(text) => text,
            Value::Null => continue,
            _ => return Err("json: cannot unmarshal into Go struct field Secret.data".into()),
        };
        STANDARD.decode(text).map_err(|error| format!("illegal base64 data: {error}"))?;
    }
    let plain = object.as_object_mut().and_then(|fields| fields.remove("stringData"));
    for (key, value) in plain.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        object["data"][key] = STANDARD.encode(text).into();
    }
    if object["type"].as_str().is_none_or(str::is_empty) {
        object["type"] = "Opaque".into();
    }
    Ok(())
}

/// Checks Go's layout `2006-01-02T15:04:05.000000Z07:00`: exactly six fractional digits.
fn is_micro_time(text: &str) -> bool {
    let fits = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.chars().zip(shape.chars()).all(|(c, s)| match s {
                '0' => c.is_ascii_digit(),
                '+' => c == '+' || c == '-',
                s => c == s,
            })
    };
    fits(text, "0000-00-00T00:00:00.000000Z") || fits(text, "0000-00-00T00:00:00.000000+00:00")
}

/// Rejects with 422 what the real server's validation rejects.
pub(crate) fn validate(
    resource: &Resource,
    object: &Value,
    before: Option<&Value>,
) -> Result<(), Status> {
    let mut causes = Vec::new();
    if before.is_none() {
        check_name(resource, object, &mut causes);
    }
    match resource.plural.as_str() {
        _ if !resource.builtin => {}
        "leases" => check_lease(object, &mut causes),
        "secrets" => check_secret(object, before, &mut causes),
        "certificatesigningrequests" => signer::check(object, before, &mut causes),
        "events" => check_event(resource, object, &mut causes),
        _ => {}
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(resource, name, &causes)) }
}

fn check_name(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    let field = "metadata.name";
    let Some(name) = object["metadata"]["name"].as_str().filter(|name| !name.is_empty()) else {
        causes.push(Cause::required(field, "name or generateName is required"));
        return;
    };
    // RBAC names are path segments, such as `system:node`.
    if resource.group == "rbac.authorization.k8s.io" {
        return;
    }
    let is_label = resource.is("namespaces");
    let valid = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty()
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let (limit, good) = match is_label {
        true => (63, valid(name)),
        false => (253, name.split('.').all(valid)),
    };
    if name.len() > limit {
        let why = format!("must be no more than {limit} characters");
        causes.push(Cause::invalid(field, &format!("{name:?}"), &why));
    }
    if !good {
        let why = if is_label { LABEL } else { SUBDOMAIN };
        causes.push(Cause::invalid(field, &format!("{name:?}"), why));
    }
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
    or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
    regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn check_lease(object: &Value, causes: &mut Vec<Cause>) {
    let number = |field: &str| object["spec"][field].as_i64();
    if let Some(n @ ..=0) = number("leaseDurationSeconds") {
        let field = "spec.leaseDurationSeconds";
        causes.push(Cause::invalid(field, &n.to_string(), "must be greater than 0"));
    }
    if let Some(n @ ..=-1) = number("leaseTransitions") {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.leaseTransitions", &n.to_string(), why));
    }
}

fn check_secret(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    let kind = &object["type"];
    if before.is_some_and(|before| before["type"] != *kind) {
        causes.push(Cause::invalid("type", &kind.to_string(), "field is immutable"));
    }
    if before.is_some_and(|b| b["immutable"] == true && b["data"] != object["data"]) {
        causes.push(Cause::forbidden("data", "field is immutable when `immutable` is set"));
    }
    let data = object["data"].as_object();
    let total: usize = data.into_iter().flatten().filter_map(|(_, v)| v.as_str()).map(size).sum();
    if total > SECRET_LIMIT {
        causes.push(Cause::too_long("data", SECRET_LIMIT));
    }
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    for (key, _) in data.into_iter().flatten().filter(|(key, _)| !key.chars().all(good)) {
        let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        causes.push(Cause::invalid(&format!("data[{key}]"), &format!("{key:?}"), why));
    }
    if kind == "kubernetes.io/tls" {
        let missing = ["tls.crt", "tls.key"].into_iter().filter(|k| object["data"][*k].is_null());
        causes.extend(missing.map(|key| Cause::required(&format!("data[{key}]"), "")));
    }
}

/// Returns the decoded length of base64 text.
fn size(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// Validates an Event. Events are stored in the core group's form; the rules of events.k8s.io apply to Events written
/// through that group.
fn check_event(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    let involved = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if involved != namespace && !(involved.is_empty() && namespace == "default") {
        let value = format!("{involved:?}");
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &value,
            "does not match event.namespace",
        ));
    }
    if resource.group.is_empty() {
        return;
    }
    let absent = |field: &str| object[field].as_str().is_none_or(str::is_empty);
    for (kept, field) in [
        ("eventTime", "eventTime"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if absent(kept) {
            causes.push(Cause::required(field, ""));
        }
    }
    if object["type"] != "Normal" && object["type"] != "Warning" {
        causes.push(Cause::invalid("type", &object["type"].to_string(), "has invalid value"));
    }
    if object["message"].as_str().is_some_and(|note| note.len() > 1024) {
        causes.push(Cause::too_long("note", 1024));
    }
}

/// The fields that the two event groups name differently: (core, events.k8s.io).
const EVENT_NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Converts from the request's group and version to the stored form.
pub(crate) fn to_stored(resource: &Resource, object: &mut Value) {
    if resource.group == "events.k8s.io" {
        rename(object, EVENT_NAMES.map(|(core, own)| (own, core)));
    }
}

/// Converts from the stored form to the request's group and version.
pub(crate) fn present(resource: &Resource, version: &str, mut object: Value) -> Value {
    object["apiVersion"] = resource.api_version(version).into();
    object["kind"] = resource.kind.clone().into();
    resource.shape(&mut object);
    if resource.group == "events.k8s.io" {
        rename(&mut object, EVENT_NAMES);
    }
    object
}

fn rename(object: &mut Value, names: [(&str, &str); 7]) {
    let Value::Object(fields) = object else { return };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
}
