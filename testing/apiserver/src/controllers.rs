//! What the controllers of a real cluster do behind the API: sign, empty terminating namespaces,
//! collect garbage, remove the objects of a deleted CustomResourceDefinition.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, DEFINITIONS};
use crate::delete::{self, FOREGROUND, ORPHAN};
use crate::metadata::{finalizers, text};
use crate::signer;
use crate::store::{Change, Event, Key, Outcome};

const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";

/// Works until the server stops; `events` are all changes of all objects.
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
        DEFINITIONS if is_gone => purge(cluster, &event.object),
        "namespaces" if !is_gone => empty(cluster, &event.key.name),
        _ => {}
    }
    if is_gone {
        dependents_of_deleted(cluster, text(&event.object, "/metadata/uid"));
        empty(cluster, &event.key.namespace);
    } else {
        check_owners(cluster, event);
        work_off_policies(cluster, &event.key);
    }
}

/// Removes an object as a controller would; that it is gone already is fine.
fn remove(cluster: &Cluster, key: &Key) {
    if let Some(resource) = cluster.registry.stored_as(&key.resource) {
        let _ = delete::delete(cluster, &resource, key, &delete::Options::default());
    }
}

/// Changes an object unless it is gone; `change` says whether there is something to change. Whether
/// it was changed.
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
    let options = crate::lock(&cluster.signer).clone();
    alter(cluster, key, |object| {
        let next = signer::advance(object, &cluster.ca, &options);
        next.map(|next| *object = next).is_some()
    });
}

fn purge(cluster: &Cluster, definition: &Value) {
    let (plural, group) = (text(definition, "/spec/names/plural"), text(definition, "/spec/group"));
    for (key, _) in cluster.store.snapshot(&format!("{plural}.{group}"), "").objects {
        // The resource is no longer registered, so there is no deletion by the rules.
        let _ =
            cluster.transact::<()>(&key, |current| Ok(Outcome::Remove(current.ok_or(())?.clone())));
    }
}

/// Takes a step in the termination of a namespace.
fn empty(cluster: &Cluster, name: &str) {
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

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// All objects that name this uid as an owner.
fn dependents(cluster: &Cluster, uid: &str) -> Vec<(Key, Arc<Value>)> {
    let mut all = cluster.store.snapshot("", "").objects;
    all.retain(|(_, object)| owners(object).any(|owner| owner["uid"] == uid));
    all
}

fn exists(cluster: &Cluster, uid: &Value, namespace: &str) -> bool {
    let all = cluster.store.snapshot("", "").objects;
    all.iter().any(|(key, object)| {
        object["metadata"]["uid"] == *uid
            && (key.namespace.is_empty() || key.namespace == namespace)
    })
}

fn dependents_of_deleted(cluster: &Cluster, uid: &str) {
    for (key, object) in dependents(cluster, uid) {
        if owners(&object).any(|owner| exists(cluster, &owner["uid"], &key.namespace)) {
            disown(cluster, &key, uid);
        } else {
            remove(cluster, &key);
        }
        // An owner that is being deleted in the foreground may wait for this dependent.
        for owner in owners(&object) {
            work_off_owner(cluster, text(owner, "/uid"));
        }
    }
}

fn disown(cluster: &Cluster, key: &Key, uid: &str) {
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

/// The real garbage collector also takes objects whose owners never existed.
fn check_owners(cluster: &Cluster, event: &Event) {
    let references = |object: &Value| object["metadata"]["ownerReferences"].clone();
    if event.before.as_ref().is_some_and(|b| references(b) == references(&event.object)) {
        return;
    }
    let namespace = &event.key.namespace;
    let mut all = owners(&event.object).peekable();
    if all.peek().is_some() && !all.any(|owner| exists(cluster, &owner["uid"], namespace)) {
        remove(cluster, &event.key);
    }
}

fn work_off_owner(cluster: &Cluster, uid: &str) {
    let all = cluster.store.snapshot("", "").objects;
    if let Some((key, _)) = all.iter().find(|(_, object)| object["metadata"]["uid"] == uid) {
        work_off_policies(cluster, key);
    }
}

/// Foreground and Orphan deletion: the finalizer goes once the dependents are dealt with.
fn work_off_policies(cluster: &Cluster, key: &Key) {
    let Some(object) = cluster.store.get(key) else { return };
    if object["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let uid = text(&object, "/metadata/uid");
    let pending = finalizers(&object);
    let done = if pending.iter().any(|finalizer| finalizer == ORPHAN) {
        for (dependent, _) in dependents(cluster, uid) {
            disown(cluster, &dependent, uid);
        }
        ORPHAN
    } else if pending.iter().any(|finalizer| finalizer == FOREGROUND) {
        for (dependent, _) in dependents(cluster, uid) {
            remove(cluster, &dependent);
        }
        FOREGROUND
    } else {
        return;
    };
    if dependents(cluster, uid).is_empty() {
        alter(cluster, key, |object| {
            let left: Vec<String> = finalizers(object).into_iter().filter(|f| f != done).collect();
            object["metadata"]["finalizers"] = json!(left);
            true
        });
    }
}
