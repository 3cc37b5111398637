//! Create, update and patch, by the generic rules of the API server's storage layer.

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    http::{Answer, Incoming},
    kinds, managed_fields,
    metadata::{
        count_generation, finalizers, generate_name, keep_metadata, restrict_to_subresource, stamp,
        text,
    },
    patch,
    resources::Resource,
    signer,
    status::{Cause, Status},
    store::{Key, Outcome},
    target::Target,
    user::User,
};

const PATCHES: &str = "application/json-patch+json, application/merge-patch+json";

/// One write and its target.
pub(crate) struct Write<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) resource: &'a Resource,
    pub(crate) target: &'a Target,
    pub(crate) user: &'a User,
    pub(crate) dry_run: bool,
    /// The field manager.
    pub(crate) manager: &'a str,
    /// The client named the manager: from now on the object has managedFields.
    pub(crate) is_managed: bool,
    /// Whether an apply takes fields from other managers.
    pub(crate) force: bool,
}

impl Write<'_> {
    pub(crate) fn create(&self, request: &Incoming) -> Result<Answer, Status> {
        if self.resource.terminating {
            return Err(Status::terminating(self.resource));
        }
        let mut object = self.read(request)?;
        let given = text(&object, "/metadata/name").to_string();
        self.check_namespace(&given)?;
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::internal(why));
        }
        // Regenerates a name that already exists, like the real server since 1.30.
        for _ in 0..8 {
            if given.is_empty() {
                generate_name(&mut object);
            }
            match self.insert(object.clone()) {
                Err(status) if status.reason == "AlreadyExists" && given.is_empty() => continue,
                result => return Ok(Answer::json(201, &self.present(result?))),
            }
        }
        let name = text(&object, "/metadata/name");
        Err(Status::already_exists(self.resource, name))
    }

    fn insert(&self, object: Value) -> Result<Value, Status> {
        let object = self.prepare_new(object)?;
        let key = self.key(text(&object, "/metadata/name"));
        self.cluster.transact(&key, |current| match current {
            Some(current) => Err(Status::taken(self.resource, &key.name, current)),
            None => Ok(self.outcome(Outcome::Put(object))),
        })
    }

    /// Validates a new object and adds everything that the server sets.
    fn prepare_new(&self, mut object: Value) -> Result<Value, Status> {
        if self.resource.status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        kinds::decode(self.resource, &mut object)?;
        kinds::prepare(self.resource, &mut object, self.user);
        kinds::validate(self.resource, &object, None)?;
        if self.resource.is("certificatesigningrequests") && signer::claims_system_masters(&object)
        {
            let name = text(&object, "/metadata/name");
            let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters \
                       group is not allowed";
            let (group, plural) = (&self.resource.group, &self.resource.plural);
            return Err(Status::forbidden(group, plural, name, why));
        }
        stamp(self.resource, &mut object);
        if self.is_managed {
            managed_fields::update(None, &mut object, self.manager);
        }
        Ok(object)
    }

    pub(crate) fn update(&self, request: &Incoming) -> Result<Answer, Status> {
        let object = self.read(request)?;
        let given = text(&object, "/metadata/name");
        if given != self.target.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                self.target.name
            )));
        }
        let key = self.key(given);
        let mut created = false;
        let done = self.cluster.transact(&key, |current| match current {
            Some(current) => self.checked_replace(current, object),
            None => {
                created = true;
                self.upsert(object)
            }
        })?;
        Ok(Answer::json(if created { 201 } else { 200 }, &self.present(done)))
    }

    /// Handles a PUT of an object that does not exist: creates it if the kind allows that and no uid shows that it
    /// existed before.
    fn upsert(&self, object: Value) -> Result<Outcome, Status> {
        let name = &self.target.name;
        if !self.resource.create_on_update || !self.target.subresource.is_empty() {
            return Err(Status::not_found(self.resource, name));
        }
        let uid = text(&object, "/metadata/uid");
        if !uid.is_empty() {
            let path = format!("{}/{}/{name}", self.resource.plural, self.target.namespace);
            return Err(Status::conflict(
                self.resource,
                name,
                &format!(
                    "StorageError: invalid object, Code: 4, Key: /registry/{path}, \
                     ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
                     precondition: {uid}, UID in object meta: "
                ),
            ));
        }
        self.prepare_new(object).map(|object| self.outcome(Outcome::Put(object)))
    }

    fn checked_replace(&self, current: &Value, object: Value) -> Result<Outcome, Status> {
        let (name, resource) = (&self.target.name, self.resource);
        let (uid, own) = (text(&object, "/metadata/uid"), text(current, "/metadata/uid"));
        if !uid.is_empty() && uid != own {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
            );
            return Err(Status::conflict(resource, name, &why));
        }
        let version = text(&object, "/metadata/resourceVersion");
        if version.is_empty() && !resource.unconditional_update {
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", "0x0", why);
            // This names the resource, unlike all other rejections with this code.
            return Err(Status::invalid_kind(&resource.group, &resource.plural, name, &[cause]));
        }
        self.check_version(current, version)?;
        self.replace(current, object, false)
    }

    pub(crate) fn patch(&self, request: &Incoming) -> Result<Answer, Status> {
        let media = request.header("content-type").unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        if media == "application/apply-patch+yaml" && self.target.subresource.is_empty() {
            return self.apply(request);
        }
        let is_list = media == "application/json-patch+json";
        let is_merge = media == "application/merge-patch+json";
        // Strategic merge patches are treated as merge patches; custom resources accept none.
        let is_strategic = media == "application/strategic-merge-patch+json";
        if !(is_list || is_merge || is_strategic && self.resource.builtin) {
            let accepted = match self.resource.builtin {
                true => format!("{PATCHES}, application/strategic-merge-patch+json"),
                false => PATCHES.into(),
            };
            return Err(Status::unsupported(&accepted));
        }
        let change = parse(&request.body)?;
        let key = self.key(&self.target.name);
        let done = self.cluster.transact(&key, |current| {
            let current =
                current.ok_or_else(|| Status::not_found(self.resource, &self.target.name))?;
            let object = self.patched(current, &change, is_list)?;
            self.replace(current, object, false)
        })?;
        Ok(Answer::json(200, &self.present(done)))
    }

    /// Server-side apply, which also creates.
    fn apply(&self, request: &Incoming) -> Result<Answer, Status> {
        if !self.is_managed {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(Status::invalid_kind("meta.k8s.io", "PatchOptions", "", &[cause]));
        }
        let (mut applied, name) = (self.read_object(&request.body)?, &self.target.name);
        applied["metadata"]["name"] = name.clone().into();
        let key = self.key(name);
        if self.cluster.store.get(&key).is_none() {
            self.check_namespace(name)?;
        }
        let mut created = false;
        let done = self.cluster.transact(&key, |current| {
            let Some(current) = current else {
                created = true;
                let mut object = self.prepare_new(applied.clone())?;
                object["metadata"]["managedFields"] = json!([]);
                let object = self.apply_to(&object, &applied)?;
                return Ok(self.outcome(Outcome::Put(object)));
            };
            self.check_version(current, text(&applied, "/metadata/resourceVersion"))?;
            let object = self.apply_to(current, &applied)?;
            self.replace(current, object, true)
        })?;
        Ok(Answer::json(if created { 201 } else { 200 }, &self.present(done)))
    }

    fn apply_to(&self, current: &Value, applied: &Value) -> Result<Value, Status> {
        managed_fields::apply(current, applied, self.manager, self.force)
            .map_err(|conflicts| Status::apply_conflict(&conflicts))
    }

    fn patched(&self, current: &Value, change: &Value, is_list: bool) -> Result<Value, Status> {
        let mut object = self.present(current.clone());
        if is_list {
            patch::apply(&mut object, change).map_err(|failure| match failure {
                patch::Failure::Malformed(why) => Status::bad_request(why),
                patch::Failure::Unfit => Status::unprocessable(),
            })?;
        } else {
            patch::merge(&mut object, change);
        }
        kinds::to_stored(self.resource, &mut object);
        let immutable = |field: &str, value: &str| {
            let cause = Cause::invalid(field, &format!("{value:?}"), "field is immutable");
            Status::invalid(self.resource, &self.target.name, &[cause])
        };
        let (uid, own) = (text(&object, "/metadata/uid"), text(current, "/metadata/uid"));
        if uid != own {
            return Err(immutable("metadata.uid", uid));
        }
        let name = text(&object, "/metadata/name");
        if name != self.target.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.target.name
            )));
        }
        self.check_version(current, text(&object, "/metadata/resourceVersion"))?;
        Ok(object)
    }

    fn check_version(&self, current: &Value, version: &str) -> Result<(), Status> {
        let stale = !version.is_empty() && version != text(current, "/metadata/resourceVersion");
        if stale { Err(Status::modified(self.resource, &self.target.name)) } else { Ok(()) }
    }

    /// Replaces the current state with the new one, as far as this subresource may change it.
    fn replace(
        &self,
        stored: &Value,
        mut object: Value,
        is_applied: bool,
    ) -> Result<Outcome, Status> {
        let owners = object["metadata"]["managedFields"].clone();
        kinds::decode(self.resource, &mut object)?;
        let mut current = stored.clone();
        self.resource.shape(&mut current);
        let current = &current;
        let mut next =
            restrict_to_subresource(self.resource, &self.target.subresource, current, object);
        kinds::validate(self.resource, &next, Some(current))?;
        keep_metadata(current, &mut next);
        self.check_finalizers(current, &next)?;
        if is_applied {
            next["metadata"]["managedFields"] = owners;
        } else if self.target.subresource.is_empty()
            && (self.is_managed || next["metadata"]["managedFields"].is_array())
        {
            managed_fields::update(Some(current), &mut next, self.manager);
        }
        if next == *stored {
            return Ok(Outcome::Answer(next));
        }
        count_generation(self.resource, current, &mut next);
        let is_deleting = !next["metadata"]["deletionTimestamp"].is_null();
        let is_free =
            is_deleting && finalizers(&next).is_empty() && !self.resource.is("namespaces");
        Ok(self.outcome(if is_free { Outcome::Remove(next) } else { Outcome::Put(next) }))
    }

    fn check_finalizers(&self, current: &Value, next: &Value) -> Result<(), Status> {
        let is_deleting = !current["metadata"]["deletionTimestamp"].is_null();
        let known = finalizers(current);
        let added: Vec<String> =
            finalizers(next).into_iter().filter(|new| !known.contains(new)).collect();
        if !is_deleting || added.is_empty() {
            return Ok(());
        }
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             {added:?}"
        );
        let cause = Cause::forbidden("metadata.finalizers", &why);
        Err(Status::invalid(self.resource, &self.target.name, &[cause]))
    }

    fn outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Put(object) | Outcome::Remove(object) if self.dry_run => {
                Outcome::Answer(object)
            }
            outcome => outcome,
        }
    }

    /// Parses the body as an object of this resource, in stored form.
    fn read(&self, request: &Incoming) -> Result<Value, Status> {
        if !request.is_json() {
            return Err(Status::unsupported("application/json"));
        }
        self.read_object(&request.body)
    }

    fn read_object(&self, body: &[u8]) -> Result<Value, Status> {
        let mut object = parse(body)?;
        if !object.is_object() {
            return Err(Status::bad_request("the body is not an object"));
        }
        self.check_kind(&object)?;
        let expected = if self.resource.namespaced { self.target.namespace.as_str() } else { "" };
        match text(&object, "/metadata/namespace") {
            "" => {}
            namespace if namespace == expected => {}
            _ => {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on \
                     the request",
                ));
            }
        }
        kinds::to_stored(self.resource, &mut object);
        object["apiVersion"] = self.resource.api_version(&self.target.version).into();
        object["kind"] = self.resource.kind.clone().into();
        match &object["metadata"] {
            Value::Null => object["metadata"] = json!({}),
            Value::Object(_) => {}
            _ => return Err(Status::bad_request("metadata is not an object")),
        }
        if !expected.is_empty() {
            object["metadata"]["namespace"] = expected.into();
        }
        Ok(object)
    }

    fn check_kind(&self, object: &Value) -> Result<(), Status> {
        let expected = self.resource.api_version(&self.target.version);
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        if !version.is_empty() && version != expected {
            return Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version \
                 ({expected})"
            )));
        }
        if !kind.is_empty() && kind != self.resource.kind {
            return Err(Status::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {}: no kind \"{kind}\" is \
                 registered",
                self.target.version, self.resource.kind
            )));
        }
        Ok(())
    }

    fn check_namespace(&self, name: &str) -> Result<(), Status> {
        if !self.resource.namespaced {
            return Ok(());
        }
        let namespace = &self.target.namespace;
        match self.cluster.namespace(namespace) {
            None => Err(Status::no_namespace(namespace)),
            Some(found) if !found["metadata"]["deletionTimestamp"].is_null() => {
                let why = format!(
                    "unable to create new content in namespace {namespace} because it is being \
                     terminated"
                );
                let message = format!("namespace {namespace} is being terminated");
                let cause = json!([{
                    "reason": "NamespaceTerminating", "message": message,
                    "field": "metadata.namespace",
                }]);
                let (group, plural) = (&self.resource.group, &self.resource.plural);
                Err(Status::forbidden(group, plural, name, &why).with("causes", cause))
            }
            Some(_) => Ok(()),
        }
    }

    fn key(&self, name: &str) -> Key {
        self.cluster.key(self.resource, &self.target.namespace, name)
    }

    fn present(&self, object: Value) -> Value {
        kinds::present(self.resource, &self.target.version, object)
    }
}

fn parse(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|error| {
        Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })
}
