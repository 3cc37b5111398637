//! Kubernetes Status of a failed request, and the [`Error`] for it.

use std::time::Duration;

use serde_json::Value;

use crate::{
    client::request::ApiRequest,
    error::Error,
    json, log_line,
    resource::{SECRETS, Target},
};

/// The longest Retry-After that is honored.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);
/// The size limit of a failure's body, in bytes. A Status with a cause for each of 1,000 fields has some 200 KiB.
pub(crate) const MAX_BODY: u64 = 512 << 10;
/// The memory limit of a Status, in bytes.
const MAX_MEMORY: usize = 512 << 10;

/// The Status in a failure's body; null if there is none, as from a gateway.
pub(crate) fn parse(body: &[u8]) -> Value {
    let value = json::parse(body, MAX_MEMORY).unwrap_or_default();
    if value["kind"] == "Status" { value } else { Value::Null }
}

/// Classifies an answer with a code outside 200–299.
///
/// `what` begins the sentence ("update leases ns/x on the hub"); `retry_after` is the header.
pub(crate) fn error(
    status: &Value,
    what: &str,
    request: &ApiRequest<'_>,
    code: u16,
    retry_after: Option<&str>,
) -> Error {
    let target = &request.target;
    let details = &status["details"];
    let has_cause = |reason: &str| {
        let causes = details["causes"].as_array();
        causes.is_some_and(|causes| causes.iter().any(|cause| cause["reason"] == reason))
    };
    let message = sentence(what, target, code, status);
    match code {
        300..=399 => Error::BadPeer(format!("{what}: {code}: a redirect, which is not followed")),
        401 => Error::Unauthorized(message),
        403 if has_cause("NamespaceTerminating") => Error::NamespaceTerminating(message),
        403 => Error::Forbidden(message),
        404 if names(details, target) => Error::NotFound(message),
        404 => Error::NotServed(message),
        409 if status["reason"] == "AlreadyExists" => Error::AlreadyExists(message),
        409 => Error::Conflict(message),
        410 => Error::Gone(message),
        504 if has_cause("ResourceVersionTooLarge") => Error::TooNew(message),
        // A failed `test`, or a missing path: the object has changed since it was read. Rejected content comes with
        // causes (apiserver `pkg/endpoints/handlers/patch.go`, applyJSPatch).
        422 if !status.is_null() && request.is_json_patch() && details["causes"].is_null() => {
            Error::Conflict(message)
        }
        422 if details["causes"].as_array().into_iter().flatten().any(is_immutable) => {
            Error::Immutable(message)
        }
        429 | 500..=599 => {
            let header = retry_after.and_then(|value| value.trim().parse().ok());
            let seconds = header.or_else(|| details["retryAfterSeconds"].as_u64());
            let retry_after = seconds.map(|s| Duration::from_secs(s).min(MAX_RETRY_AFTER));
            // With a Status, a 429 to a write concerns this object: a webhook sent it. Limits for all requests, API
            // Priority and Fairness and max-inflight, send none (apiserver
            // `pkg/server/filters/priority-and-fairness.go`, tooManyRequests).
            let refused = code == 429 && request.body.is_some() && !status.is_null();
            let is_denial = status["message"].as_str().is_some_and(is_denied);
            let of_object = refused || names(details, target) || is_denial;
            Error::Unavailable { message, retry_after, of_object }
        }
        _ => Error::Invalid(message),
    }
}

/// An `ERROR` event of a watch carries a Status instead of an object.
pub(crate) fn watch_error(what: &str, request: &ApiRequest<'_>, status: &Value) -> Error {
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
    let status = if status["kind"] == "Status" { status } else { &Value::Null };
    error(status, what, request, code, None)
}

/// Returns whether `details` name the object itself. If something else is missing, the server names that or nothing.
fn names(details: &Value, target: &Target<'_>) -> bool {
    let name = details["name"].as_str();
    name.is_some() && name == target.name && details["kind"] == *target.resource.plural
}

/// Returns whether a cause is an immutable field. Kubernetes has no reason for it, only messages:
/// - ValidateImmutableField (apimachinery `pkg/api/validation/objectmeta.go`) and most CRD rules end with "immutable";
/// - StatefulSets, Pods and PersistentVolumeClaims have their own (kubernetes `pkg/apis/*/validation`).
///
/// A mismatched uid is another error.
fn is_immutable(cause: &Value) -> bool {
    let text = |key: &str| cause[key].as_str().unwrap_or_default();
    let message = text("message");
    let said = match text("reason") {
        "FieldValueInvalid" => message.ends_with("immutable"),
        "FieldValueForbidden" => ["immutable", "updates to ", "may not change"]
            .iter()
            .any(|words| message.contains(words)),
        _ => false,
    };
    said && !text("field").starts_with("metadata.")
}

fn sentence(what: &str, target: &Target<'_>, code: u16, status: &Value) -> String {
    // Only a Status is quoted: a proxy's HTML page does not help in a log.
    match status["message"].as_str() {
        Some(message) if may_quote(target, code, message) => {
            let reason = status["reason"].as_str().unwrap_or("refused");
            format!("{what}: {code}: {}", log_line::printable(reason, 100))
        }
        Some(message) => format!("{what}: {code}: {}", log_line::printable(message, 500)),
        None => format!("{what}: {code} without a Kubernetes Status"),
    }
}

/// Returns whether a message may contain a Secret's data: validation quotes rejected values, and a webhook may, too
/// (apiserver `pkg/admission/plugin/webhook/errors/statuserror.go`).
fn may_quote(target: &Target<'_>, code: u16, message: &str) -> bool {
    *target.resource == SECRETS && (matches!(code, 400 | 422 | 500) || is_denied(message))
}

/// Returns whether an admission webhook or ValidatingAdmissionPolicy rejected the object. They choose the code, but not
/// these words (apiserver `pkg/admission/plugin/webhook/errors/statuserror.go`,
/// `pkg/admission/plugin/policy/validating/dispatcher.go`).
fn is_denied(message: &str) -> bool {
    ["denied the request", "denied request"].iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use ureq::http::Method;

    use super::*;
    use crate::{
        client::request::{JSON, Patch},
        resource::LEASES,
    };

    fn lease() -> ApiRequest<'static> {
        ApiRequest::get(LEASES.object("ns", "x"))
    }

    fn classify(request: &ApiRequest<'_>, code: u16, status: &Value) -> Error {
        error(&parse(status.to_string().as_bytes()), "update x on the hub", request, code, None)
    }

    fn status(reason: &str, details: Value) -> Value {
        json!({"kind": "Status", "reason": reason, "message": "because", "details": details})
    }

    fn caused_by(reason: &str, field: &str, message: &str) -> Value {
        let cause = json!({"reason": reason, "field": field, "message": message});
        status("", json!({"name": "x", "causes": [cause]}))
    }

    #[test]
    fn codes_become_what_the_caller_does() {
        let none = || status("", json!({}));
        let (this, other) =
            (json!({"name": "x", "kind": "leases"}), json!({"name": "x", "kind": "namespaces"}));
        let terminating = caused_by("NamespaceTerminating", "", "");
        for (code, status, kind) in [
            (307, none(), "BadPeer"),
            (401, none(), "Unauthorized"),
            (403, none(), "Forbidden"),
            (403, terminating, "NamespaceTerminating"),
            (404, status("NotFound", this), "NotFound"),
            (404, status("NotFound", other), "NotServed"),
            (404, none(), "NotServed"),
            (404, Value::Null, "NotServed"),
            (409, none(), "Conflict"),
            (409, status("AlreadyExists", json!({})), "AlreadyExists"),
            (410, none(), "Gone"),
            (422, none(), "Invalid"),
            (504, caused_by("ResourceVersionTooLarge", "", ""), "TooNew"),
        ] {
            let error = format!("{:?}", classify(&lease(), code, &status));
            assert!(error.starts_with(&format!("{kind}(")), "{code} {status}: {error}");
        }
    }

    #[test]
    fn json_patch_that_does_not_fit_is_a_conflict() {
        let patch = ApiRequest::patch(LEASES.object("ns", "x"), Patch::Json, &json!([]));
        let none = status("Invalid", json!({}));
        assert!(matches!(classify(&patch, 422, &none), Error::Conflict(_)));
        assert!(matches!(classify(&patch, 400, &none), Error::Invalid(_)));
        let bad = caused_by("FieldValueInvalid", "spec.x", "must be a number");
        assert!(matches!(classify(&patch, 422, &bad), Error::Invalid(_)));
    }

    #[test]
    fn a_field_that_cannot_be_changed_is_told_from_a_bad_one() {
        let of =
            |reason, field, message| classify(&lease(), 422, &caused_by(reason, field, message));
        for (reason, message) in [
            ("FieldValueInvalid", "Invalid value: 1: field is immutable"),
            ("FieldValueInvalid", "Invalid value: \"object\": Value is immutable"),
            ("FieldValueForbidden", "Forbidden: spec is immutable after creation except resources"),
            (
                "FieldValueForbidden",
                "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
            ),
            (
                "FieldValueForbidden",
                "Forbidden: pod updates may not change fields other than `spec.tolerations`",
            ),
        ] {
            assert!(matches!(of(reason, "spec.x", message), Error::Immutable(_)), "{message}");
            assert!(matches!(of(reason, "metadata.uid", message), Error::Invalid(_)), "{message}");
        }
        for (reason, message) in [
            ("FieldValueInvalid", "Invalid value: \"field is immutable\": must be a number"),
            ("FieldValueForbidden", "Forbidden: must not be set"),
            ("FieldValueRequired", "Required value: is immutable"),
        ] {
            assert!(matches!(of(reason, "spec.x", message), Error::Invalid(_)), "{message}");
        }
    }

    #[test]
    fn retry_after_comes_from_header_or_status_and_is_bounded() {
        for (header, details, seconds) in [
            (Some("7"), json!({}), Some(7)),
            (None, json!({"retryAfterSeconds": 3}), Some(3)),
            (Some("Wed, 21 Oct 2026 07:28:00 GMT"), json!({}), None),
            (Some("99999999"), json!({}), Some(MAX_RETRY_AFTER.as_secs())),
            (Some("-1"), json!({"retryAfterSeconds": -1}), None),
        ] {
            let status = status("", details);
            let after = error(&status, "update x", &lease(), 429, header).retry_after();
            assert_eq!(after, seconds.map(Duration::from_secs), "{header:?}");
        }
    }

    #[test]
    fn status_429_is_about_one_object_or_about_all() {
        let target = LEASES.object("ns", "x");
        let write = || ApiRequest::write(Method::POST, target, JSON, &Value::Null, false);
        let webhook = || status("TooManyRequests", json!({"retryAfterSeconds": 60}));
        let denied = "admission webhook \"x\" denied the request: busy";
        for (request, status, expected) in [
            (lease(), webhook(), false),
            (lease(), status("", json!({"name": "other", "kind": "leases"})), false),
            (lease(), status("", json!({"name": "x", "kind": "leases"})), true),
            (lease(), json!({"kind": "Status", "message": denied}), true),
            (lease(), Value::Null, false),
            (write(), webhook(), true),
            (write(), json!("Too many requests, please try again later."), false),
        ] {
            let error = classify(&request, 429, &status);
            let Error::Unavailable { of_object, .. } = error else { panic!("{error:?}") };
            assert_eq!(of_object, expected, "{} {status}", request.method);
        }
    }

    #[test]
    fn only_a_status_is_a_word_of_the_server() {
        for body in ["", "null", "{}", r#"{"kind":"Lease"}"#, "<html>"] {
            assert!(parse(body.as_bytes()).is_null(), "{body}");
        }
        assert!(!parse(br#"{"kind":"Status"}"#).is_null());
        let causes = r#"{"a":1},"#.repeat(10_000);
        let huge = format!(r#"{{"kind":"Status","details":{{"causes":[{causes}1]}}}}"#);
        assert!(parse(huge.as_bytes()).is_null());
    }

    #[test]
    fn the_sentence_is_one_bounded_line() {
        let long = json!({"kind": "Status", "message": "a\n\u{1b}[31m".repeat(1000)});
        let text = classify(&lease(), 500, &long).to_string();
        assert!(text.len() < 600 && !text.contains(|c: char| c.is_control()), "{text}");
        let html = classify(&lease(), 502, &json!("<html>bad gateway</html>")).to_string();
        assert_eq!(html, "update x on the hub: 502 without a Kubernetes Status");
    }
}
