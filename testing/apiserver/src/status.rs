//! Failures in the API server's format: `Status` objects with reason, details and causes.

use serde_json::{Map, Value, json};

use crate::{
    managed_fields::Conflict,
    resources::{Resource, qualified},
};

/// A failed request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Map<String, Value>,
}

/// One reason why an object is invalid.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cause {
    reason: &'static str,
    message: String,
    field: String,
}

impl Cause {
    pub(crate) fn invalid(field: &str, value: &str, why: &str) -> Self {
        let message = format!("Invalid value: {value}: {why}");
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    pub(crate) fn required(field: &str, why: &str) -> Self {
        let message = match why {
            "" => "Required value".into(),
            why => format!("Required value: {why}"),
        };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    pub(crate) fn forbidden(field: &str, why: &str) -> Self {
        let message = format!("Forbidden: {why}");
        Self { reason: "FieldValueForbidden", message, field: field.into() }
    }

    pub(crate) fn too_long(field: &str, limit: usize) -> Self {
        let message = format!("Too long: may not be more than {limit} bytes");
        Self { reason: "FieldValueTooLong", message, field: field.into() }
    }

    pub(crate) fn unsupported(field: &str, value: &str, supported: &str) -> Self {
        let message = format!("Unsupported value: {value:?}: supported values: {supported:?}");
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    fn sentence(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }

    fn json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Map::new() }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.details.insert(key.into(), value.into());
            }
        }
        self
    }

    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.details.insert(key.into(), value);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified = qualified(resource, group);
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{qualified} is forbidden: {why}"),
            _ => format!("{qualified} \"{name}\" is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message).about(&resource.group, &resource.plural, name)
    }

    pub(crate) fn no_namespace(name: &str) -> Self {
        let message = format!("namespaces \"{name}\" not found");
        Self::new(404, "NotFound", message).about("", "namespaces", name)
    }

    /// The answer to a path without a resource; it does not name an object.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    pub(crate) fn not_acceptable() -> Self {
        let message =
            "only the following media types are accepted: application/json, application/yaml";
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(&resource.group, &resource.plural, name)
    }

    /// The answer to a POST with a name that `current` already has.
    pub(crate) fn taken(resource: &Resource, name: &str, current: &Value) -> Self {
        let mut status = Self::already_exists(resource, name);
        if !current["metadata"]["deletionTimestamp"].is_null() {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }

    pub(crate) fn apply_conflict(conflicts: &[Conflict]) -> Self {
        let one = |conflict: &Conflict| {
            let Conflict { manager, field } = conflict;
            let message = format!("conflict with {manager:?}");
            Cause { reason: "FieldManagerConflict", message, field: field.clone() }.json()
        };
        let first = &conflicts[0];
        let count = conflicts.len();
        let plural = if count == 1 { "" } else { "s" };
        let message = format!(
            "Apply failed with {count} conflict{plural}: conflict{plural} with {:?}: {}",
            first.manager, first.field,
        );
        Self::new(409, "Conflict", message).with("causes", conflicts.iter().map(one).collect())
    }

    /// The answer to a POST of a kind whose definition is being deleted.
    pub(crate) fn terminating(resource: &Resource) -> Self {
        let message = "create not allowed while custom resource definition is terminating";
        Self::new(405, "MethodNotAllowed", message).about(&resource.group, &resource.plural, "")
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::conflict_of(&resource.group, &resource.plural, name, why)
    }

    /// A failed precondition of a DELETE names the kind, not the resource.
    pub(crate) fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        Self::conflict_of(&resource.group, &resource.kind, name, why)
    }

    fn conflict_of(group: &str, what: &str, name: &str, why: &str) -> Self {
        let qualified = qualified(what, group);
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(group, what, name)
    }

    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; \
                   please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn old_version() -> Self {
        Self::expired("The provided resource version is too old.")
    }

    pub(crate) fn old_page() -> Self {
        Self::expired(
            "The provided continue parameter is too old to display a consistent list result. \
             You can start a new list without the continue parameter, or use the continue \
             token in this response to retrieve the remainder of the results. Continuing with \
             the provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may \
             show up in the list.",
        )
    }

    pub(crate) fn too_large() -> Self {
        let message = "Request entity too large: limit is 3145728";
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn unsupported(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_kind(&resource.group, &resource.kind, name, causes)
    }

    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let sentences: Vec<String> = causes.iter().map(Cause::sentence).collect();
        let why = match sentences.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {why}", qualified(kind, group));
        let causes = causes.iter().map(Cause::json).collect();
        Self::new(422, "Invalid", message).about(group, kind, name).with("causes", causes)
    }

    /// A patch that cannot be applied; the real server leaves the details empty.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = json!([
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        ]);
        Self::new(504, "Timeout", message).with("causes", cause).with("retryAfterSeconds", 1.into())
    }

    /// Returns a failure with any code, and the real server's reason for it.
    pub(crate) fn generic(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the server rejected our request for an unknown reason"),
            401 => return Self::unauthorized(),
            403 => ("Forbidden", "forbidden"),
            404 => return Self::no_such_resource(),
            405 => return Self::method_not_allowed(),
            409 => ("Conflict", "the server reported a conflict"),
            410 => ("Expired", "The provided resource version is too old"),
            413 => return Self::too_large(),
            422 => return Self::unprocessable(),
            429 => ("TooManyRequests", "too many requests, please try again later"),
            500 => ("InternalError", "Internal error occurred: injected"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "Timeout: request did not complete within the allotted timeout"),
            _ => ("", "an error on the server has prevented the request from succeeding"),
        };
        Self::new(code, reason, message)
    }

    pub(crate) fn json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        // The real server omits `details` only for errors that never carry any.
        if !self.details.is_empty() || matches!(self.code, 403 | 404 | 405 | 422) {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }
}
