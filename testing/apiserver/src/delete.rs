//! Deletion: preconditions, finalizers, namespaces. Dependents are deleted in the background, whatever the policy.

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    http::{Answer, Incoming},
    metadata::{finalizers, text},
    resources::Resource,
    status::Status,
    store::{Key, Outcome},
    target::Target,
    time::now,
};

/// The finalizer that keeps a CustomResourceDefinition until its objects are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The options of a DELETE.
#[derive(Debug, Default)]
pub(crate) struct DeleteOptions {
    uid: String,
    version: String,
    dry_run: bool,
}

impl DeleteOptions {
    pub(crate) fn new(request: &Incoming, dry_run: bool) -> Result<Self, Status> {
        let body: Value = match request.body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&request.body)
                .map_err(|error| Status::bad_request(format!("json parse error: {error}")))?,
        };
        Ok(Self {
            uid: text(&body, "/preconditions/uid").into(),
            version: text(&body, "/preconditions/resourceVersion").into(),
            dry_run: dry_run || body["dryRun"] == json!(["All"]),
        })
    }

    fn check(&self, resource: &Resource, key: &Key, current: &Value) -> Result<(), Status> {
        let (uid, version) =
            (text(current, "/metadata/uid"), text(current, "/metadata/resourceVersion"));
        let reject = |what: &str, asked: &str, own: &str, end: &str| {
            let why = format!(
                "the {what} in the precondition ({asked}) does not match the {what} in record \
                 ({own}). The object might have been {end}"
            );
            Err(Status::precondition(resource, &key.name, &why))
        };
        if !self.uid.is_empty() && self.uid != uid {
            return reject("UID", &self.uid, uid, "deleted and then recreated");
        }
        if !self.version.is_empty() && self.version != version {
            return reject("ResourceVersion", &self.version, version, "modified");
        }
        Ok(())
    }
}

/// Deletes an object, or marks it for deletion. Returns its last state and whether it is gone.
pub(crate) fn delete(
    cluster: &Cluster,
    resource: &Resource,
    key: &Key,
    options: &DeleteOptions,
) -> Result<(Value, bool), Status> {
    let mut gone = false;
    let object = cluster.transact(key, |current| {
        let current = current.ok_or_else(|| Status::not_found(resource, &key.name))?;
        options.check(resource, key, current)?;
        let outcome = deletion_outcome(resource, current);
        gone = matches!(outcome, Outcome::Remove(_));
        Ok(match outcome {
            Outcome::Put(object) | Outcome::Remove(object) if options.dry_run => {
                Outcome::Answer(object)
            }
            outcome => outcome,
        })
    })?;
    Ok((object, gone))
}

fn deletion_outcome(resource: &Resource, current: &Value) -> Outcome {
    let mut next = current.clone();
    let mut pending = finalizers(current);
    let is_namespace = resource.is("namespaces");
    let is_definition = resource.is("customresourcedefinitions");
    if is_definition && current["metadata"]["deletionTimestamp"].is_null() {
        pending.push(CLEANUP.into());
    }
    if pending.is_empty() && !is_namespace {
        return Outcome::Remove(next);
    }
    if !current["metadata"]["deletionTimestamp"].is_null() {
        return Outcome::Answer(next);
    }
    let metadata = &mut next["metadata"];
    metadata["deletionTimestamp"] = now().into();
    metadata["deletionGracePeriodSeconds"] = 0.into();
    if !pending.is_empty() {
        metadata["finalizers"] = json!(pending);
    }
    if let Some(generation) = metadata["generation"].as_u64() {
        metadata["generation"] = (generation + 1).into();
    }
    if is_namespace {
        next["status"]["phase"] = "Terminating".into();
    }
    if is_definition {
        let condition = json!({
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will \
                        begin soon",
            "lastTransitionTime": now(),
        });
        if let Some(conditions) = next["status"]["conditions"].as_array_mut() {
            conditions.push(condition);
        }
    }
    Outcome::Put(next)
}

/// Answers a DELETE over HTTP with the object, if it still exists or its kind's storage always returns it; otherwise
/// with a success Status.
pub(crate) fn answer(
    cluster: &Cluster,
    resource: &Resource,
    target: &Target,
    options: &DeleteOptions,
) -> Result<Answer, Status> {
    let key = cluster.key(resource, &target.namespace, &target.name);
    let (object, gone) = delete(cluster, resource, &key, options)?;
    if !gone || resource.is("pods") || resource.is("serviceaccounts") {
        let object = crate::kinds::present(resource, &target.version, object);
        return Ok(Answer::json(200, &object));
    }
    let mut details = json!({
        "name": target.name, "kind": resource.plural, "uid": object["metadata"]["uid"],
    });
    if !resource.group.is_empty() {
        details["group"] = resource.group.clone().into();
    }
    let success = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    });
    Ok(Answer::json(200, &success))
}
