//! GET of one object and LIST with pages and selectors.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http::Answer;
use crate::kinds;
use crate::resources::Resource;
use crate::selectors::Selector;
use crate::status::Status;
use crate::store::Key;
use crate::target::{Query, Target};

pub(crate) fn get(
    cluster: &Cluster,
    resource: &Resource,
    target: &Target,
    query: &Query,
) -> Result<Answer, Status> {
    check_version(cluster, query)?;
    let key = cluster.key(resource, &target.namespace, &target.name);
    let object =
        cluster.store.get(&key).ok_or_else(|| Status::not_found(resource, &target.name))?;
    let object = kinds::present(resource, &target.version, (*object).clone());
    Ok(Answer::json(200, &object))
}

pub(crate) fn list(
    cluster: &Cluster,
    resource: &Resource,
    target: &Target,
    query: &Query,
) -> Result<Answer, Status> {
    check_version(cluster, query)?;
    let selector = selector(resource, query)?;
    let after = query.text("continue").map(|token| Page::read(token, cluster)).transpose()?;
    let snapshot = cluster.store.snapshot(&resource.storage(), &target.namespace);
    let place = |key: &Key| format!("{}/{}", key.namespace, key.name);
    let wanted: Vec<_> = snapshot
        .objects
        .iter()
        .filter(|(key, _)| after.as_ref().is_none_or(|page| place(key) > page.after))
        .filter(|(_, object)| selector.matches(object))
        .collect();
    let version = after.map_or(snapshot.version, |page| page.version);
    let limit = limit(query)?.filter(|limit| *limit < wanted.len());
    let shown = &wanted[..limit.unwrap_or(wanted.len())];
    let items = shown.iter().map(|(_, object)| item(resource, target, object)).collect::<Vec<_>>();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let (Some(limit), Some((key, _))) = (limit, shown.last()) {
        metadata["continue"] = Page { version, after: place(key) }.write().into();
        // With a selector the real server doesn't know how many are left.
        if selector == Selector::default() {
            metadata["remainingItemCount"] = (wanted.len() - limit).into();
        }
    }
    let api_version = resource.api_version(&target.version);
    let kind = format!("{}List", resource.kind);
    Ok(Answer::json(
        200,
        &json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}),
    ))
}

/// Items of built-in kinds go without kind and apiVersion, those of custom resources with.
fn item(resource: &Resource, target: &Target, object: &Value) -> Value {
    let mut item = kinds::present(resource, &target.version, object.clone());
    if let (true, Value::Object(fields)) = (resource.builtin, &mut item) {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}

/// The selectors of a query. A watch or list of one named object counts as a field selector.
pub(crate) fn selector(resource: &Resource, query: &Query) -> Result<Selector, Status> {
    Selector::new(query.text("labelSelector"), query.text("fieldSelector"), resource)
}

fn limit(query: &Query) -> Result<Option<usize>, Status> {
    let Some(text) = query.text("limit") else { return Ok(None) };
    let limit: usize = text.parse().map_err(|_| Status::bad_request("limit: not a number"))?;
    Ok(Some(limit).filter(|limit| *limit > 0))
}

/// A version from the future gets a Timeout (the real server waits three seconds for it first);
/// an exact one must still be in the history.
fn check_version(cluster: &Cluster, query: &Query) -> Result<(), Status> {
    let Some(asked) = version(query)? else { return Ok(()) };
    let (current, compacted) = (cluster.store.version(), cluster.store.compacted());
    if asked > current {
        return Err(Status::version_too_large(asked, current));
    }
    if query.text("resourceVersionMatch") == Some("Exact") && asked < compacted {
        return Err(Status::expired("The provided resource version is too old."));
    }
    Ok(())
}

/// `resourceVersion` as a number; None where it is absent or empty.
pub(crate) fn version(query: &Query) -> Result<Option<u64>, Status> {
    let Some(text) = query.text("resourceVersion") else { return Ok(None) };
    let refuse = |_| {
        Status::bad_request(format!("resourceVersion: Invalid value: {text:?}: invalid number"))
    };
    text.parse().map(Some).map_err(refuse)
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

    fn read(token: &str, cluster: &Cluster) -> Result<Self, Status> {
        let refuse = || Status::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refuse())?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| refuse())?;
        let page = token["rv"].as_u64().zip(token["start"].as_str());
        let (version, after) = page.ok_or_else(refuse)?;
        if version < cluster.store.compacted() {
            return Err(Status::expired(
                "The provided continue parameter is too old to display a consistent list result. \
                 You can start a new list without the continue parameter, or use the continue \
                 token in this response to retrieve the remainder of the results. Continuing with \
                 the provided token results in an inconsistent list - objects that were created, \
                 modified, or deleted between the time the first chunk was returned and now may \
                 show up in the list.",
            ));
        }
        Ok(Self { version, after: after.into() })
    }
}
