//! GET of one object, and LIST with pagination and selectors.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    form::Form,
    http::Answer,
    kinds,
    resources::Resource,
    selectors::Selector,
    status::{Cause, Status},
    store::Key,
    target::{Query, Target},
};

pub(crate) fn get(
    cluster: &Cluster,
    resource: &Resource,
    target: &Target,
    query: &Query,
    form: Form,
) -> Result<Answer, Status> {
    check_version(cluster, query)?;
    let key = cluster.key(resource, &target.namespace, &target.name);
    let object =
        cluster.store.get(&key).ok_or_else(|| Status::not_found(resource, &target.name))?;
    let object = kinds::present(resource, &target.version, (*object).clone());
    Ok(Answer::json(200, &form.render(object)))
}

pub(crate) fn list(
    cluster: &Cluster,
    resource: &Resource,
    target: &Target,
    query: &Query,
    form: Form,
) -> Result<Answer, Status> {
    check_list(query)?;
    check_version(cluster, query)?;
    let selector = selector(resource, query)?;
    let after = query.text("continue").map(Page::read).transpose()?;
    let exact = match &after {
        Some(page) => Some((page.version, Status::old_page())),
        None => exactly(query)?.map(|version| (version, Status::old_version())),
    };
    let (storage, namespace) = (resource.storage(), &target.namespace);
    let snapshot = match exact {
        None => cluster.store.snapshot(&storage, namespace),
        Some((version, too_old)) => {
            cluster.store.snapshot_at(&storage, namespace, version).ok_or(too_old)?
        }
    };
    let place = |key: &Key| format!("{}/{}", key.namespace, key.name);
    let wanted: Vec<_> = snapshot
        .objects
        .iter()
        .filter(|(key, _)| after.as_ref().is_none_or(|page| place(key) > page.after))
        .filter(|(_, object)| selector.matches(object))
        .collect();
    let version = snapshot.version;
    let limit = limit(query)?.filter(|limit| *limit < wanted.len());
    let shown = &wanted[..limit.unwrap_or(wanted.len())];
    let items: Vec<_> =
        shown.iter().map(|(_, object)| item(resource, target, object, form)).collect();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let (Some(limit), Some((key, _))) = (limit, shown.last()) {
        metadata["continue"] = Page { version, after: place(key) }.write().into();
        // With a selector, the real server does not know how many items remain.
        if selector == Selector::default() {
            metadata["remainingItemCount"] = (wanted.len() - limit).into();
        }
    }
    let (api_version, kind) = match form {
        Form::Whole => (resource.api_version(&target.version), format!("{}List", resource.kind)),
        Form::Metadata => ("meta.k8s.io/v1".into(), "PartialObjectMetadataList".into()),
    };
    Ok(Answer::json(
        200,
        &json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}),
    ))
}

/// Items of built-in kinds omit kind and apiVersion; items of custom resources keep them.
fn item(resource: &Resource, target: &Target, object: &Value, form: Form) -> Value {
    let mut item = form.render(kinds::present(resource, &target.version, object.clone()));
    let is_bare = resource.builtin && form == Form::Whole;
    if let (true, Value::Object(fields)) = (is_bare, &mut item) {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}

/// Returns the selectors of a query.
pub(crate) fn selector(resource: &Resource, query: &Query) -> Result<Selector, Status> {
    Selector::new(query.text("labelSelector"), query.text("fieldSelector"), resource)
}

fn limit(query: &Query) -> Result<Option<usize>, Status> {
    let Some(text) = query.text("limit") else { return Ok(None) };
    let limit: usize = text.parse().map_err(|_| Status::bad_request("limit: not a number"))?;
    Ok(Some(limit).filter(|limit| *limit > 0))
}

/// Rejects the same list options as the real server (apimachinery
/// `pkg/apis/meta/internalversion/validation`).
fn check_list(query: &Query) -> Result<(), Status> {
    let (matching, version) = (query.text("resourceVersionMatch"), query.text("resourceVersion"));
    let next = query.text("continue");
    if next.is_some() && version.is_some_and(|version| version != "0") {
        let why = "specifying resource version is not allowed when using continue";
        return Err(Status::bad_request(why));
    }
    let why = match (matching, version) {
        (None, _) => return Ok(()),
        _ if next.is_some() => "resourceVersionMatch is forbidden when continue is provided",
        (_, None) => "resourceVersionMatch is forbidden unless resourceVersion is provided",
        (Some("Exact"), Some("0")) => {
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
        }
        _ => return Ok(()),
    };
    let cause = Cause::forbidden("resourceVersionMatch", why);
    Err(Status::invalid_kind("meta.k8s.io", "ListOptions", "", &[cause]))
}

/// Returns the exact version that a list must have, if any. A limit with a version but no match also means Exact, for
/// backward compatibility (apiserver `pkg/storage/etcd3/store.go`, GetList).
fn exactly(query: &Query) -> Result<Option<u64>, Status> {
    let is_exact = match query.text("resourceVersionMatch") {
        None => limit(query)?.is_some(),
        matching => matching == Some("Exact"),
    };
    Ok(version(query)?.filter(|version| is_exact && *version > 0))
}

/// Rejects a future version with a Timeout (the real server first waits three seconds for it).
fn check_version(cluster: &Cluster, query: &Query) -> Result<(), Status> {
    let Some(asked) = version(query)? else { return Ok(()) };
    let current = cluster.store.version();
    if asked > current { Err(Status::version_too_large(asked, current)) } else { Ok(()) }
}

/// Returns `resourceVersion` as a number; None if it is absent or empty.
pub(crate) fn version(query: &Query) -> Result<Option<u64>, Status> {
    let Some(text) = query.text("resourceVersion") else { return Ok(None) };
    let reject = |_| {
        Status::bad_request(format!("resourceVersion: Invalid value: {text:?}: invalid number"))
    };
    text.parse().map(Some).map_err(reject)
}

/// A continue token.
struct Page {
    version: u64,
    after: String,
}

impl Page {
    fn write(&self) -> String {
        let token = json!({"v": "meta.k8s.io/v1", "rv": self.version, "start": self.after});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn read(token: &str) -> Result<Self, Status> {
        let reject = || Status::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| reject())?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| reject())?;
        let page = token["rv"].as_u64().zip(token["start"].as_str());
        let (version, after) = page.ok_or_else(reject)?;
        Ok(Self { version, after: after.into() })
    }
}
