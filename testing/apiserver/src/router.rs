//! The request router: checks user, size and media type, then dispatches to the module that
//! answers.

use std::sync::Arc;

use crate::{
    cluster::Cluster,
    delete::{self, DeleteOptions},
    discovery, effects,
    form::Form,
    http::{Answer, Incoming},
    rbac::{self, Access},
    read,
    resources::Resource,
    reviews,
    status::{Cause, Status},
    target::{Query, Target},
    user::User,
    watch::Watch,
    write::Write,
};

/// A request with its parsed target and its authenticated user.
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) target: Target,
    /// `Ok(None)` means no credentials.
    pub(crate) user: Result<Option<User>, Status>,
}

pub(crate) enum Reply {
    Answer(Answer),
    Watch(Box<Watch>),
}

/// Answers a request that no fault replaces.
pub(crate) fn handle(cluster: &Cluster, call: &Call, request: &Incoming) -> Reply {
    route(cluster, call, request).unwrap_or_else(|status| Reply::Answer(Answer::status(&status)))
}

fn route(cluster: &Cluster, call: &Call, request: &Incoming) -> Result<Reply, Status> {
    let target = &call.target;
    let user = match call.user.clone()? {
        Some(user) => user,
        None if discovery::is_public(&call.path) => User::anonymous(),
        None => return Err(Status::unauthorized()),
    };
    if request.too_large {
        return Err(Status::too_large());
    }
    if !rbac::allows(cluster, &user, &Access::new(target)) {
        return Err(effects::forbidden(target, &user));
    }
    if target.resource.is_empty() {
        return Ok(Reply::Answer(discovery::answer(&cluster.registry, &call.path)));
    }
    if let Some(answer) = reviews::answer(cluster, target, request)? {
        return Ok(Reply::Answer(answer));
    }
    let found = cluster.registry.find(&target.group, &target.version, &target.resource);
    match found.filter(|resource| fits(resource, target)) {
        Some(resource) => serve(cluster, call, &resource, request, &user),
        None if discovery::serves(&cluster.registry, &target.group, &target.version) => {
            Err(Status::no_such_resource())
        }
        None => Ok(Reply::Answer(Answer::text(404, "404 page not found\n"))),
    }
}

fn serve(
    cluster: &Cluster,
    call: &Call,
    resource: &Arc<Resource>,
    request: &Incoming,
    user: &User,
) -> Result<Reply, Status> {
    let (target, query) = (&call.target, &call.query);
    let has_subresource = match target.subresource.as_str() {
        "" => true,
        "status" => resource.status,
        "approval" => resource.is("certificatesigningrequests"),
        _ => false,
    };
    let dry_run = is_dry_run(target, query)?;
    let given = query.text("fieldManager");
    let agent = request.header("user-agent").unwrap_or_default();
    let manager = given.or_else(|| agent.split('/').next()).unwrap_or_default();
    let (is_managed, force) = (given.is_some(), query.flag("force"));
    let write = Write { cluster, resource, target, user, dry_run, manager, is_managed, force };
    let form = || Form::new(request, target.verb == "list");
    let answer = match (target.verb, target.name.is_empty()) {
        _ if !has_subresource => no_subresource(cluster, resource, target),
        ("get", _) => read::get(cluster, resource, target, query, form()?),
        ("list", _) => read::list(cluster, resource, target, query, form()?),
        ("watch", _) => {
            let watch = Watch::new(cluster, resource.clone(), target, query, form()?)?;
            return Ok(Reply::Watch(Box::new(watch)));
        }
        ("create", true) => write.create(request),
        ("update", false) => write.update(request),
        ("patch", false) => write.patch(request),
        ("delete", _) if target.subresource.is_empty() => {
            let options = DeleteOptions::new(request, dry_run)?;
            delete::answer(cluster, resource, target, &options)
        }
        _ => Err(Status::method_not_allowed()),
    };
    answer.map(Reply::Answer)
}

/// Returns whether a write stores nothing; the only valid value is `All` (apimachinery `pkg/apis/meta/v1/validation`,
/// ValidateDryRun).
fn is_dry_run(target: &Target, query: &Query) -> Result<bool, Status> {
    let kind = match target.verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        "delete" => "DeleteOptions",
        _ => return Ok(false),
    };
    match query.text("dryRun") {
        None => Ok(false),
        Some("All") => Ok(true),
        Some(other) => {
            let cause = Cause::unsupported("dryRun", other, "All");
            Err(Status::invalid_kind("meta.k8s.io", kind, "", &[cause]))
        }
    }
}

/// Measured: the details are empty if the object exists; otherwise they name it as usual.
fn no_subresource(
    cluster: &Cluster,
    resource: &Resource,
    target: &Target,
) -> Result<Answer, Status> {
    let key = cluster.key(resource, &target.namespace, &target.name);
    match cluster.store.get(&key) {
        Some(_) => Err(Status::no_such_resource()),
        None => Err(Status::not_found(resource, &target.name)),
    }
}

/// Returns whether the path's namespace fits the resource's scope; a list may span all namespaces.
fn fits(resource: &Resource, target: &Target) -> bool {
    let is_namespace = resource.is("namespaces");
    match (resource.namespaced, target.namespace.is_empty()) {
        (true, true) => target.name.is_empty() && target.verb != "create",
        (false, false) => is_namespace,
        _ => true,
    }
}
