//! The state of the server and the way of a request through it: who, what, then the right module.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::ca::Ca;
use crate::delete;
use crate::discovery;
use crate::faults::Faults;
use crate::form::Form;
use crate::http::{Answer, Incoming};
use crate::identity::{Identities, User};
use crate::read;
use crate::requests::Log;
use crate::resources::{Registry, Resource};
use crate::reviews;
use crate::signer::SignerOptions;
use crate::status::Status;
use crate::store::{Key, Outcome, Store};
use crate::target::{Query, Target};
use crate::watch::Watch;
use crate::write::Write;

pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Everything that outlives a connection.
pub(crate) struct Cluster {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) ca: Ca,
    pub(crate) identities: Identities,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    pub(crate) signer: Mutex<SignerOptions>,
    pub(crate) bookmarks: Duration,
}

/// A request with what was found out about it.
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) target: Target,
    /// None stands for no credentials.
    pub(crate) user: Result<Option<User>, Status>,
}

pub(crate) enum Reply {
    Answer(Answer),
    Watch(Box<Watch>),
}

impl Cluster {
    /// The key of an object; cluster-scoped resources have no namespace even where the path of a
    /// Namespace seems to give one.
    pub(crate) fn key(&self, resource: &Resource, namespace: &str, name: &str) -> Key {
        let namespace = if resource.namespaced { namespace } else { "" };
        Key { resource: resource.storage(), namespace: namespace.into(), name: name.into() }
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Value>> {
        let resource = "namespaces".into();
        self.store.get(&Key { resource, namespace: String::new(), name: name.into() })
    }

    /// Changes the store and keeps the registry in step with the CustomResourceDefinitions.
    pub(crate) fn transact<E>(
        &self,
        key: &Key,
        decide: impl FnOnce(Option<&Value>) -> Result<Outcome, E>,
    ) -> Result<Value, E> {
        let object = self.store.transact(key, decide)?;
        if key.resource == DEFINITIONS {
            match (Resource::from_definition(&object), self.store.get(key)) {
                (Some(resource), Some(_)) => self.registry.add(resource),
                (Some(resource), None) => self.registry.remove(&resource.group, &resource.plural),
                (None, _) => {}
            }
        }
        Ok(object)
    }

    pub(crate) fn date(&self) -> SystemTime {
        let offset = self.faults.date_offset();
        let now = SystemTime::now();
        let shift = Duration::from_secs(offset.unsigned_abs());
        if offset < 0 { now - shift } else { now + shift }
    }

    pub(crate) fn handle(&self, call: &Call, request: &Incoming) -> Reply {
        self.route(call, request).unwrap_or_else(|status| Reply::Answer(Answer::status(&status)))
    }

    fn route(&self, call: &Call, request: &Incoming) -> Result<Reply, Status> {
        let target = &call.target;
        let user = match call.user.clone()? {
            Some(user) => user,
            None if discovery::is_public(&call.path) => User::anonymous(),
            None => return Err(Status::unauthorized()),
        };
        if request.too_large {
            return Err(Status::too_large());
        }
        if !accepts_json(request) {
            return Err(Status::not_acceptable());
        }
        if target.resource.is_empty() {
            return discovery::answer(&self.registry, &call.path, &user).map(Reply::Answer);
        }
        if let Some(answer) = reviews::answer(self, target, request, &user)? {
            return Ok(Reply::Answer(answer));
        }
        let found = self.registry.find(&target.group, &target.version, &target.resource);
        match found.filter(|resource| fits(resource, target)) {
            Some(resource) => self.serve(call, &resource, request, &user),
            None if discovery::serves(&self.registry, &target.group, &target.version) => {
                Err(Status::no_such_resource())
            }
            None => Ok(Reply::Answer(Answer::text(404, "404 page not found\n"))),
        }
    }

    fn serve(
        &self,
        call: &Call,
        resource: &Arc<Resource>,
        request: &Incoming,
        user: &User,
    ) -> Result<Reply, Status> {
        let target = &call.target;
        let has_subresource = match target.subresource.as_str() {
            "" => true,
            "status" => resource.status,
            "approval" => resource.is("certificatesigningrequests"),
            _ => false,
        };
        let dry_run = call.query.text("dryRun").is_some();
        let write = Write { cluster: self, resource, target, user, dry_run };
        let form = || Form::new(request, target.verb == "list");
        let answer = match (target.verb, target.name.is_empty()) {
            _ if !has_subresource => self.no_subresource(resource, target),
            ("get", _) => read::get(self, resource, target, &call.query, form()?),
            ("list", _) => read::list(self, resource, target, &call.query, form()?),
            ("watch", _) => {
                let watch = Watch::new(self, resource.clone(), target, &call.query, form()?)?;
                return Ok(Reply::Watch(Box::new(watch)));
            }
            ("create", true) => write.create(request),
            ("update", false) => write.update(request),
            ("patch", false) => write.patch(request),
            ("delete", _) if target.subresource.is_empty() => {
                let options = delete::Options::new(request, &call.query)?;
                delete::answer(self, resource, target, &options)
            }
            _ => Err(Status::method_not_allowed()),
        };
        answer.map(Reply::Answer)
    }

    /// Measured: empty details where the object exists; a missing object is named as usual.
    fn no_subresource(&self, resource: &Resource, target: &Target) -> Result<Answer, Status> {
        let key = self.key(resource, &target.namespace, &target.name);
        match self.store.get(&key) {
            Some(_) => Err(Status::no_such_resource()),
            None => Err(Status::not_found(resource, &target.name)),
        }
    }
}

/// Namespaced objects have their path below a namespace, others have not.
fn fits(resource: &Resource, target: &Target) -> bool {
    let is_namespace = resource.is("namespaces");
    match (resource.namespaced, target.namespace.is_empty()) {
        (true, true) => target.name.is_empty() && target.verb != "create",
        (false, false) => is_namespace,
        _ => true,
    }
}

fn accepts_json(request: &Incoming) -> bool {
    let accepted: Vec<&str> =
        request.headers("accept").flat_map(|value| value.split(',')).collect();
    accepted.is_empty()
        || accepted.iter().any(|media| {
            let media = media.split(';').next().unwrap_or_default().trim();
            matches!(media, "*/*" | "application/*" | "application/json")
                || media.starts_with("text/")
        })
}
