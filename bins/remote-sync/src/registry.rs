//! Remotes that come and go with the Secrets of their kubeconfigs, as Cluster API has them.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use serde_json::Value;
use shared::{
    error::Result,
    program,
    resource::{SECRETS, valid_label},
    watch::{Selection, Step, Stream},
};

use crate::{
    connection,
    engine::Engine,
    remotes::{add, with_own},
    settings::{CLUSTER_LABEL, OWN, Registry, SECRET_SUFFIX},
    stream::{PAGE, place},
};

/// Adds and removes remotes as their Secrets come and go, if there is a registry.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn start(engine: &Arc<Engine>) -> Result<()> {
    let Some(registry) = engine.context.settings.registry.clone() else { return Ok(()) };
    let engine = engine.clone();
    program::spawn("registry", move || follow(&engine, &registry))
}

fn follow(engine: &Arc<Engine>, registry: &Registry) {
    let selection = Selection {
        target: SECRETS.collection(&registry.namespace),
        labels: &registry.selector,
        metadata_only: false,
        page: PAGE,
    };
    let mut stream = Stream::default();
    let mut members = Members { engine, remotes: BTreeMap::new(), listed: Vec::new() };
    with_own(engine, |session| {
        // A cluster that was away may have been restored.
        stream.relist();
        stream.run(&session.client, &selection, &session.stop, &mut |step| {
            members.take(step);
            ControlFlow::Continue(())
        });
    });
}

/// The remotes of the registry.
struct Members<'a> {
    engine: &'a Arc<Engine>,
    /// All that were ever there, by name.
    remotes: BTreeMap<String, Member>,
    /// Those of the list that has begun.
    listed: Vec<String>,
}

#[derive(Default)]
struct Member {
    /// Its Secret, while there is one.
    secret: Option<Value>,
    /// It is followed, and not only left out for another one.
    added: bool,
    /// The cluster that it was last.
    uid: Option<String>,
}

impl Members<'_> {
    fn take(&mut self, step: Step<'_>) {
        match step {
            Step::Began { .. } => self.listed.clear(),
            Step::Item(secret) => {
                self.listed.extend(name_of(&secret));
                self.put(secret);
            }
            Step::Put(secret) => self.put(secret),
            Step::Removed(secret) => {
                if let Some(name) = name_of(&secret) {
                    self.remove(&name);
                }
            }
            Step::Complete => {
                let there = self.remotes.iter().filter(|(_, member)| member.secret.is_some());
                let gone = there.map(|(name, _)| name).filter(|name| !self.listed.contains(name));
                for name in gone.cloned().collect::<Vec<_>>() {
                    self.remove(&name);
                }
                self.tell(None);
                self.engine.all_known.store(true, Relaxed);
            }
            Step::Watching => self.tell(None),
            Step::Failed(error) => self.tell(Some(error.to_string())),
        }
    }

    /// Says why not all remotes of the registry are followed, if so.
    fn tell(&self, failure: Option<String>) {
        let left_out = self.remotes.iter().filter(|(_, m)| m.secret.is_some() && !m.added);
        let left_out = left_out.map(|(name, _)| format!("remote {name} is left out"));
        let troubles: Vec<_> = failure.into_iter().chain(left_out).collect();
        self.engine.set_registry_trouble(Some(troubles.join("; ")).filter(|text| !text.is_empty()));
    }

    fn put(&mut self, secret: Value) {
        let Some(name) = name_of(&secret) else { return };
        self.remotes.entry(name.clone()).or_default().secret = Some(secret);
        self.offer(&name);
        self.tell(None);
    }

    fn offer(&mut self, name: &str) {
        let Some(member) = self.remotes.get_mut(name) else { return };
        let Some(secret) = &member.secret else { return };
        let (namespace, of) = place(secret);
        if !member.added {
            if let Some(why) = refusal(self.engine, name) {
                return log::warn!("remote {name} is left out: {why}");
            }
            if let Err(error) = add(self.engine, (name, namespace), None, member.uid.clone()) {
                return log::warn!("{error}");
            }
            member.added = true;
            log::info!("remote {name} is new");
        }
        if let Some(route) = self.engine.routes().iter().find(|route| route.name == name) {
            let connection = &self.engine.remote_of(route).connection;
            let place = format!("{namespace}/{of}");
            connection::feed_secret(connection, &place, Some(secret), None);
        }
    }

    /// Its objects stay; one that was left out for it has its turn.
    fn remove(&mut self, name: &str) {
        let Some(member) = self.remotes.get_mut(name) else { return };
        member.secret = None;
        if std::mem::take(&mut member.added) {
            member.uid = self.engine.remove(name).or_else(|| member.uid.take());
            log::info!("remote {name} is gone, its objects stay as they are");
        }
        for name in self.remotes.keys().cloned().collect::<Vec<_>>() {
            if self.remotes.get(&name).is_some_and(|member| !member.added) {
                self.offer(&name);
            }
        }
        self.tell(None);
    }
}

/// Why a remote of this name cannot be added, if it cannot.
fn refusal(engine: &Engine, name: &str) -> Option<String> {
    let routes = engine.routes();
    let others = routes.iter().map(|route| &*route.name);
    if name == OWN || !valid_label(name) {
        return Some("that is no name for a remote".into());
    }
    if others.clone().any(|other| other == name) {
        return Some("there is one of that name by another flag".into());
    }
    let other = engine.context.settings.clash(name, others)?;
    Some(format!("an object may belong to {other} too"))
}

/// The cluster that the Secret is about, if it is the kubeconfig of one.
fn name_of(secret: &Value) -> Option<String> {
    let name = secret["metadata"]["labels"][CLUSTER_LABEL].as_str()?;
    (place(secret).1.strip_suffix(SECRET_SUFFIX) == Some(name)).then(|| name.to_owned())
}
