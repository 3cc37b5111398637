//! The controllers of a real cluster: they sign CSRs, empty terminating namespaces and CustomResourceDefinitions, and
//! collect garbage.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, DEFINITIONS},
    delete::{self, CLEANUP, DeleteOptions},
    lock::lock,
    metadata::{finalizers, text},
    signer,
    store::{Change, Event, Key, Outcome, owners},
};

const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

/// Runs until the server stops; `events` has every change of every object.
pub(crate) fn run(cluster: &Cluster, events: &Receiver<Arc<Event>>) {
    loop {
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(event) => react(cluster, &event),
            Err(RecvTimeoutError::Timeout) if cluster.faults.gate().is_stopped() => return,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn react(cluster: &Cluster, event: &Event) {
    let is_gone = event.change == Change::Deleted;
    match event.key.resource.as_str() {
        REQUESTS if !is_gone => sign(cluster, &event.key),
        DEFINITIONS if is_gone => remove_custom_objects(cluster, &event.object),
        DEFINITIONS => finish_definition(cluster, &event.key.name),
        "namespaces" if !is_gone => empty_namespace(cluster, &event.key.name),
        _ => {}
    }
    if is_gone {
        process_dependents(cluster, &event.object);
        finish_definition(cluster, &event.key.resource);
        empty_namespace(cluster, &event.key.namespace);
    } else {
        check_owners(cluster, event);
    }
}

/// Deletes an object like a controller; it may already be gone.
fn remove(cluster: &Cluster, key: &Key) {
    if let Some(resource) = cluster.registry.stored_as(&key.resource) {
        let _ = delete::delete(cluster, &resource, key, &DeleteOptions::default());
    }
}

/// Changes an object if it exists; `change` returns whether it changed anything. Returns whether the object was
/// changed.
pub(crate) fn alter(cluster: &Cluster, key: &Key, change: impl FnOnce(&mut Value) -> bool) -> bool {
    let altered = cluster.transact(key, |current| {
        let mut next = current.ok_or(())?.clone();
        if !change(&mut next) {
            return Err(());
        }
        let is_deleting = !next["metadata"]["deletionTimestamp"].is_null();
        let is_free = is_deleting && finalizers(&next).is_empty() && key.resource != "namespaces";
        Ok(if is_free { Outcome::Remove(next) } else { Outcome::Put(next) })
    });
    altered.is_ok()
}

fn sign(cluster: &Cluster, key: &Key) {
    let options = lock(&cluster.signer).clone();
    alter(cluster, key, |object| {
        let next = signer::advance(object, &cluster.ca, &options);
        next.map(|next| *object = next).is_some()
    });
}

fn remove_custom_objects(cluster: &Cluster, definition: &Value) {
    let (plural, group) = (text(definition, "/spec/names/plural"), text(definition, "/spec/group"));
    for (key, _) in cluster.store.snapshot(&format!("{plural}.{group}"), "").objects {
        // The resource is no longer registered, so the deletion rules do not apply.
        let _ =
            cluster.transact::<()>(&key, |current| Ok(Outcome::Remove(current.ok_or(())?.clone())));
    }
}

/// Takes one step in the removal of a CustomResourceDefinition, which is deleted after its objects.
fn finish_definition(cluster: &Cluster, name: &str) {
    let key = Key { resource: DEFINITIONS.into(), namespace: String::new(), name: name.to_owned() };
    let Some(definition) = cluster.store.get(&key) else { return };
    if definition["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    for (key, _) in cluster.store.snapshot(name, "").objects {
        remove(cluster, &key);
    }
    if cluster.store.snapshot(name, "").objects.is_empty() {
        alter(cluster, &key, |definition| {
            let mut left = finalizers(definition);
            left.retain(|finalizer| finalizer != CLEANUP);
            let changed = left != finalizers(definition);
            definition["metadata"]["finalizers"] = json!(left);
            changed
        });
    }
}

/// Takes one step in the termination of a namespace.
fn empty_namespace(cluster: &Cluster, name: &str) {
    let terminating = cluster
        .namespace(name)
        .is_some_and(|namespace| !namespace["metadata"]["deletionTimestamp"].is_null());
    if name.is_empty() || !terminating {
        return;
    }
    for (key, _) in cluster.store.snapshot("", name).objects {
        remove(cluster, &key);
    }
    if cluster.store.snapshot("", name).objects.is_empty() {
        let key =
            Key { resource: "namespaces".into(), namespace: String::new(), name: name.into() };
        let _ = cluster.transact(&key, |current| match current {
            Some(namespace) if finalizers(namespace).is_empty() => {
                Ok(Outcome::Remove(namespace.clone()))
            }
            _ => Err(()),
        });
    }
}

fn exists(cluster: &Cluster, owner: &Value, namespace: &str) -> bool {
    let found = cluster.store.of_uid(text(owner, "/uid"));
    found.is_some_and(|key| key.namespace.is_empty() || key.namespace == namespace)
}

fn process_dependents(cluster: &Cluster, deleted: &Value) {
    let uid = text(deleted, "/metadata/uid");
    for (key, object) in cluster.store.owned_by(uid) {
        release_or_remove(cluster, &key, &object, uid);
    }
}

/// Handles a dependent of a deleted owner: removes the reference if another owner exists, otherwise the dependent.
fn release_or_remove(cluster: &Cluster, key: &Key, object: &Value, uid: &str) {
    let mut others = owners(object).filter(|owner| owner["uid"] != uid);
    if others.any(|owner| exists(cluster, owner, &key.namespace)) {
        remove_owner(cluster, key, uid);
    } else {
        remove(cluster, key);
    }
}

fn remove_owner(cluster: &Cluster, key: &Key, uid: &str) {
    alter(cluster, key, |object| {
        let Some(list) = object["metadata"]["ownerReferences"].as_array_mut() else { return false };
        let before = list.len();
        list.retain(|owner| owner["uid"] != uid);
        let is_empty = list.is_empty();
        let changed = list.len() != before;
        if let (true, Value::Object(metadata)) = (is_empty, &mut object["metadata"]) {
            metadata.remove("ownerReferences");
        }
        changed
    });
}

/// Removes an object if none of its owners exists, like the real garbage collector even if none ever did.
fn check_owners(cluster: &Cluster, event: &Event) {
    let references = |object: &Value| object["metadata"]["ownerReferences"].clone();
    if event.before.as_ref().is_some_and(|b| references(b) == references(&event.object)) {
        return;
    }
    let namespace = &event.key.namespace;
    let mut all = owners(&event.object).peekable();
    if all.peek().is_some() && !all.any(|owner| exists(cluster, owner, namespace)) {
        remove(cluster, &event.key);
    }
}
