//! Connection of a process to both servers, on which a request may fail.

use apiclient::{
    client::Preconditions,
    discovery::ApiResource,
    error::{Error, Result},
    resource::{CONFIGMAPS, Target},
};
use serde_json::{Map, Value, json};

use super::{
    changes::Change,
    world::{OBJECTS, World},
};
use crate::work::{
    bring::Digests,
    executor::SUBJECT_ACCESS_REVIEWS,
    io::{Side, WorkEvent, WorkIo},
    objects::{ManifestWork, ResourceIdentifier, ServerSideApplyConfig},
};

/// What happens at a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    NotSent,
    AnswerLost,
    Killed,
    Change(Change),
}

/// A process's connection to both servers, with one fault at most.
pub(super) struct Connection {
    world: World,
    fault: Option<(usize, Fault)>,
    sent: usize,
    killed: bool,
}

impl Connection {
    pub(super) fn new(world: World, fault: Option<(usize, Fault)>) -> Self {
        Self { world, fault, sent: 0, killed: false }
    }

    pub(super) fn end(mut self, digests: Digests) -> (World, usize) {
        let kept = digests.into_iter().map(|(object, digest)| (object.name, digest));
        self.world.digests = if self.killed { Vec::new() } else { kept.collect() };
        (self.world, self.sent)
    }

    /// Sends a request, whose effect is `what`.
    fn send<T>(&mut self, what: impl FnOnce(&mut World) -> Result<T>) -> Result<T> {
        let lost = || Error::Unreachable("lost".into());
        if self.killed {
            return Err(lost());
        }
        let fault = self.fault.filter(|(at, _)| *at == self.sent).map(|(_, fault)| fault);
        self.sent += 1;
        match fault {
            None => what(&mut self.world),
            Some(Fault::NotSent) => Err(lost()),
            Some(Fault::Change(change)) => {
                self.world.change(change);
                what(&mut self.world)
            }
            Some(fault) => {
                self.killed = matches!(fault, Fault::Killed);
                let _ = what(&mut self.world);
                Err(lost())
            }
        }
    }
}

fn key(target: &Target<'_>) -> String {
    format!("{}/{}", target.resource.plural, target.name.unwrap_or_default())
}

fn existing(world: &World, key: &str) -> Result<Value> {
    world.objects.get(key).cloned().ok_or_else(|| Error::NotFound(key.to_owned()))
}

/// Fails unless the object still has this uid and version.
fn check_guard(object: &Value, uid: &Value, version: &Value) -> Result<()> {
    let metadata = &object["metadata"];
    match metadata["uid"] == *uid && metadata["resourceVersion"] == *version {
        true => Ok(()),
        false => Err(Error::Conflict("changed".into())),
    }
}

/// Refuses an executor without permissions.
fn authorize(world: &World, side: Side<'_>) -> Result<()> {
    match (side, world.executor) {
        (Side::ManagedAs(_), Some(false)) => Err(Error::Forbidden("denied".into())),
        _ => Ok(()),
    }
}

fn authorize_write(world: &mut World, side: Side<'_>, key: &str, body: &Value) -> Result<()> {
    if side == Side::Managed {
        world.note_own_write(key, body);
    }
    authorize(world, side)
}

fn merge_patch(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    for (key, value) in fields {
        match (value, object.as_object_mut()) {
            (Value::Null, Some(object)) => drop(object.remove(key)),
            _ => merge_patch(&mut object[key], value),
        }
    }
}

fn configmaps() -> ApiResource {
    ApiResource { resource: CONFIGMAPS.clone(), namespaced: true, status: false }
}

impl WorkIo for Connection {
    fn find_kind(&mut self, _: &str, kind: &str) -> Result<ApiResource> {
        match kind {
            "ConfigMap" => Ok(configmaps()),
            _ => Err(Error::NotServed("unknown".into())),
        }
    }

    fn find_resource(&mut self, _: &str, _: &str) -> Result<Option<ApiResource>> {
        Ok(Some(configmaps()))
    }

    fn get(&mut self, side: Side<'_>, target: &Target<'_>) -> Result<Value> {
        self.send(|world| {
            authorize(world, side)?;
            existing(world, &key(target))
        })
    }

    fn create(&mut self, side: Side<'_>, target: &Target<'_>, object: &Value) -> Result<Value> {
        self.send(|world| {
            if *target.resource == SUBJECT_ACCESS_REVIEWS {
                return Ok(json!({"status": {"allowed": world.executor == Some(true)}}));
            }
            let key = key(target);
            authorize_write(world, side, &key, object)?;
            if world.objects.contains_key(&key) {
                return Err(Error::AlreadyExists(key));
            }
            world.put(&key, object.clone());
            existing(world, &key)
        })
    }

    fn patch(&mut self, side: Side<'_>, target: &Target<'_>, patch: &Value) -> Result<Value> {
        self.send(|world| {
            let key = key(target);
            authorize_write(world, side, &key, patch)?;
            if world.lacks_patch && OBJECTS.contains(&&*key) {
                return Err(Error::Forbidden("denied".into()));
            }
            let mut object = existing(world, &key)?;
            check_guard(&object, &patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"])?;
            let before = object.clone();
            merge_patch(&mut object, patch);
            if object == before {
                return Ok(object);
            }
            world.put(&key, object.clone());
            Ok(world.objects.get(&key).cloned().unwrap_or(object))
        })
    }

    fn replace(&mut self, side: Side<'_>, target: &Target<'_>, object: &Value) -> Result<Value> {
        self.send(|world| {
            let key = key(target);
            authorize(world, side)?;
            let (before, metadata) = (existing(world, &key)?, &object["metadata"]);
            check_guard(&before, &metadata["uid"], &metadata["resourceVersion"])?;
            if before != *object {
                world.put(&key, object.clone());
            }
            Ok(world.objects.get(&key).cloned().unwrap_or(before))
        })
    }

    /// Merges the object; fields have no owners here.
    fn apply(
        &mut self,
        side: Side<'_>,
        target: &Target<'_>,
        object: &Value,
        _: &ServerSideApplyConfig,
    ) -> Result<Value> {
        self.send(|world| {
            let key = key(target);
            authorize_write(world, side, &key, object)?;
            let before = world.objects.get(&key).cloned();
            let mut applied = before.clone().unwrap_or_default();
            let version = &object["metadata"]["resourceVersion"];
            if !version.is_null() && *version != applied["metadata"]["resourceVersion"] {
                return Err(Error::Conflict("changed".into()));
            }
            merge_patch(&mut applied, object);
            if before.as_ref() != Some(&applied) {
                world.put(&key, applied);
            }
            existing(world, &key)
        })
    }

    fn delete(&mut self, target: &Target<'_>, preconditions: &Preconditions) -> Result<()> {
        self.send(|world| {
            let key = key(target);
            let object = existing(world, &key)?;
            let of = |text: &Option<String>| json!(text);
            check_guard(&object, &of(&preconditions.uid), &of(&preconditions.resource_version))?;
            world.note_deletion(&key);
            world.delete(&key);
            Ok(())
        })
    }

    fn tell(&mut self, _: &ManifestWork, _: &WorkEvent<'_>) {}

    fn drift_mended(&mut self, _: &ResourceIdentifier) {}

    fn now(&self) -> String {
        "t".into()
    }
}
