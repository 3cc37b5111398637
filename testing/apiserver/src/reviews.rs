//! The resources that are never stored: SubjectAccessReviews, and token requests for service accounts.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    http::{Answer, Incoming},
    metadata::text,
    rbac::{self, Access},
    status::{Cause, Status},
    store::Key,
    target::Target,
    user::User,
};

/// Answers a request for one of these resources; None for all others.
pub(crate) fn answer(
    cluster: &Cluster,
    target: &Target,
    request: &Incoming,
) -> Result<Option<Answer>, Status> {
    let answer = match (target.group.as_str(), target.resource.as_str()) {
        ("authorization.k8s.io", "subjectaccessreviews") => access(cluster, request)?,
        ("", "serviceaccounts") if target.subresource == "token" => {
            token(cluster, target, request)?
        }
        _ => return Ok(None),
    };
    if target.verb != "create" {
        return Err(Status::method_not_allowed());
    }
    Ok(Some(Answer::json(201, &answer)))
}

fn body(request: &Incoming) -> Result<Value, Status> {
    if !request.is_json() {
        return Err(Status::unsupported("application/json"));
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    if body.is_object() { Ok(body) } else { Err(Status::bad_request("the body is not an object")) }
}

/// Allows what no fault rule forbids and, if RBAC is enforced, a Role grants.
fn access(cluster: &Cluster, request: &Incoming) -> Result<Value, Status> {
    let mut review = body(request)?;
    let asked =
        |field: &str| text(&review, &format!("/spec/resourceAttributes/{field}")).to_string();
    let verb = asked("verb");
    let target = Target {
        group: asked("group"),
        resource: asked("resource"),
        subresource: asked("subresource"),
        namespace: asked("namespace"),
        name: asked("name"),
        ..Target::default()
    };
    let groups = review["spec"]["groups"].as_array().into_iter().flatten();
    let groups = groups.filter_map(|group| group.as_str()).map(str::to_owned);
    let subject = User::new(text(&review, "/spec/user"), groups);
    let access = Access { verb: &verb, target: &target, name: &target.name };
    let allowed = !cluster.faults.forbids(&verb, &target, &subject.name)
        && rbac::allows(cluster, &subject, &access);
    review["status"] = json!({"allowed": allowed});
    Ok(review)
}

fn token(cluster: &Cluster, target: &Target, request: &Incoming) -> Result<Value, Status> {
    let (namespace, name) = (&target.namespace, &target.name);
    let key =
        Key { resource: target.resource.clone(), namespace: namespace.clone(), name: name.clone() };
    let resource = cluster.registry.find("", "v1", "serviceaccounts");
    let account = cluster.store.get(&key);
    if let (None, Some(resource)) = (&account, resource) {
        return Err(Status::not_found(&resource, name));
    }
    let mut review = body(request)?;
    let seconds = review["spec"]["expirationSeconds"].as_u64().unwrap_or(3600);
    if seconds < 600 {
        let why = "may not specify a duration less than 10 minutes";
        let cause = Cause::invalid("spec.expirationSeconds", &seconds.to_string(), why);
        return Err(Status::invalid_kind("authentication.k8s.io", "TokenRequest", "", &[cause]));
    }
    let user = User::new(
        &format!("system:serviceaccount:{namespace}:{name}"),
        ["system:serviceaccounts".to_string(), format!("system:serviceaccounts:{namespace}")],
    );
    let valid_for = Duration::from_secs(seconds);
    let expires = humantime::format_rfc3339_seconds(SystemTime::now() + valid_for).to_string();
    let token = cluster.identities.issue(user, valid_for, account.as_deref());
    review["status"] = json!({"token": token, "expirationTimestamp": expires});
    Ok(review)
}
