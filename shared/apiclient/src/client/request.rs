//! API requests, and the reasons of failed ones.

use std::io;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::CertificateError;
use serde::Serialize;
use serde_json::{Value, json};
use ureq::{
    Body,
    http::{Method, Response},
};

use crate::resource::{LEASES, Resource, Target};

pub(crate) const JSON: &str = "application/json";
/// Media types for metadata only: of an object (or the object of an event), and of the items of a list.
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

pub(crate) struct ApiRequest<'a> {
    pub(crate) method: Method,
    pub(crate) target: Target<'a>,
    pub(crate) query: String,
    pub(crate) accept: &'static str,
    pub(crate) body: Option<(&'static str, Vec<u8>)>,
    /// May be repeated after a lost connection: reads, and writes with a resourceVersion or uid.
    pub(crate) repeatable: bool,
    pub(crate) kind: ResponseKind<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind<'a> {
    Object,
    /// A list of a collection, or of the one object with that name.
    List,
    /// Events of what a list returns.
    Watch,
    /// The content of a path that is not a resource.
    Text(&'a str),
}

/// Placeholder for a request without an object.
static NO_RESOURCE: Resource = Resource::v1("", "", "");

impl<'a> ApiRequest<'a> {
    pub(crate) fn get(target: Target<'a>) -> Self {
        ApiRequest {
            method: Method::GET,
            target,
            query: String::new(),
            accept: JSON,
            body: None,
            repeatable: true,
            kind: ResponseKind::Object,
        }
    }

    /// One object is listed and watched by a field selector, so that `resourceNames` in RBAC suffices.
    pub(crate) fn list(target: Target<'a>, mut query: String) -> Self {
        if let Some(name) = target.name {
            query += &format!("&fieldSelector=metadata.name%3D{name}");
        }
        ApiRequest { query, kind: ResponseKind::List, ..ApiRequest::get(target) }
    }

    pub(crate) fn watch(target: Target<'a>, query: String) -> Self {
        ApiRequest { kind: ResponseKind::Watch, ..ApiRequest::list(target, query) }
    }

    pub(crate) fn text(path: &'a str) -> Self {
        let kind = ResponseKind::Text(path);
        ApiRequest { kind, ..ApiRequest::get(NO_RESOURCE.collection("")) }
    }

    pub(crate) fn write(
        method: Method,
        target: Target<'a>,
        content_type: &'static str,
        body: &Value,
        repeatable: bool,
    ) -> Self {
        let body = Some((content_type, body.to_string().into_bytes()));
        ApiRequest { method, body, repeatable, ..ApiRequest::get(target) }
    }

    pub(crate) fn patch(target: Target<'a>, kind: Patch, patch: &Value) -> Self {
        let guarded = match patch.as_array() {
            Some(steps) => steps.iter().any(|step| step["path"] == "/metadata/resourceVersion"),
            None => patch["metadata"]["resourceVersion"].is_string(),
        };
        ApiRequest::write(Method::PATCH, target, kind.content_type(), patch, guarded)
    }

    /// Path and query.
    pub(crate) fn path(&self) -> String {
        let target = match self.kind {
            ResponseKind::Text(path) => return path.to_owned(),
            ResponseKind::Object => self.target,
            ResponseKind::List | ResponseKind::Watch => self.target.siblings(),
        };
        match &*self.query {
            "" => target.path(),
            query => format!("{}?{query}", target.path()),
        }
    }

    /// The memory limit for an object of the answer, in bytes; `largest` is the client's own.
    pub(crate) fn budget(&self, largest: usize) -> usize {
        if *self.target.resource == LEASES { MAX_LEASE_MEMORY.min(largest) } else { largest }
    }

    pub(crate) fn delete(
        target: Target<'a>,
        propagation: Propagation,
        preconditions: &Preconditions,
    ) -> Self {
        let Preconditions { uid, resource_version } = preconditions;
        let guarded = uid.is_some() || resource_version.is_some();
        // The server ignores a null precondition.
        let guard = json!({"uid": uid, "resourceVersion": resource_version});
        let options = json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": guard,
            "propagationPolicy": propagation,
        });
        ApiRequest::write(Method::DELETE, target, JSON, &options, guarded)
    }

    pub(crate) fn is_json_patch(&self) -> bool {
        self.body.as_ref().is_some_and(|(kind, _)| *kind == Patch::Json.content_type())
    }

    pub(crate) fn verb(&self) -> &'static str {
        match (self.kind, &self.method) {
            (ResponseKind::List, _) => "list",
            (ResponseKind::Watch, _) => "watch",
            (_, &Method::POST) => "create",
            (_, &Method::PUT) => "update",
            (_, &Method::PATCH) => "patch",
            (_, &Method::DELETE) => "delete",
            _ => "get",
        }
    }
}

/// Percent-encodes a query value.
pub(crate) fn encoded(token: &str) -> String {
    const RESERVED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(token, RESERVED).to_string()
}

/// A Lease has some 500 bytes, which cost 4 KiB. Programs hold several copies of several Leases.
const MAX_LEASE_MEMORY: usize = 64 << 10;
/// `/livez?verbose` has some 5 KiB, the resources of a large API group 100 KiB.
pub(crate) const MAX_TEXT: u64 = 1 << 20;

/// The kind of change that the body of a PATCH makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    Json,
    Merge,
    /// Server-side apply: the fields that one manager wants.
    Apply,
}

impl Patch {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            // JSON is YAML.
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

pub(crate) fn read_body(
    answer: Response<Body>,
    limit: u64,
) -> std::result::Result<Vec<u8>, ureq::Error> {
    answer.into_body().with_config().limit(limit).read_to_vec()
}

/// Returns whether the server closed a kept connection, or `Client::swap` closed it during this request.
pub(crate) fn connection_lost(error: &ureq::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof,
    };
    let ureq::Error::Io(e) = error else {
        return false;
    };
    matches!(
        e.kind(),
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected
    )
}

const NO_ANSWER: &str = "no answer in time";

pub(crate) fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(e) => {
            let inner = e.get_ref();
            // ureq wraps TLS errors of a handshake and time-outs in I/O errors.
            if let Some(rustls::Error::InvalidCertificate(why)) =
                inner.and_then(|e| e.downcast_ref())
            {
                return distrust(why);
            }
            match inner.and_then(|e| e.downcast_ref()) {
                Some(ureq::Error::Timeout(_)) => NO_ANSWER.to_owned(),
                _ if connection_lost(error) => "the connection was lost".to_owned(),
                _ => e.to_string(),
            }
        }
        ureq::Error::Timeout(_) => NO_ANSWER.to_owned(),
        other => other.to_string(),
    }
}

fn distrust(why: &CertificateError) -> String {
    use CertificateError as Why;
    let what = match why {
        Why::UnknownIssuer | Why::BadSignature => "is not signed by an authority of the kubeconfig",
        Why::Expired | Why::ExpiredContext { .. } => "has expired",
        Why::NotValidYet | Why::NotValidYetContext { .. } => "is not valid yet",
        Why::NotValidForName | Why::NotValidForNameContext { .. } => "is not for this host name",
        _ => "cannot be used",
    };
    format!("the server's certificate {what} ({why})")
}
