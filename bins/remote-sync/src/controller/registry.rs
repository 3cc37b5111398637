//! Registry: remotes that come and go with the Secrets of their kubeconfigs, as Cluster API creates them.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use apiclient::{
    error::{Error, Result},
    json::{Document, Head},
    log_object,
    resource::{SECRETS, valid_label},
    watch::{Event, Selection, Watcher},
};
use kubeconfig::config::ClusterConfig;
use log::Level;
use serde_json::Value;
use sidecar::runtime;

use crate::{
    cache::reflector::PAGE,
    connection,
    controller::{
        Controller,
        clusters::{add_remote, in_local_sessions},
    },
    model::key,
    settings::{CLUSTER_LABEL, OWN, Registry, SECRET_SUFFIX},
};

/// The most remotes of the registry: each takes some threads.
const MOST_REMOTES: usize = 1000;

/// Adds and removes remotes as their Secrets come and go, if there is a registry.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn start(controller: &Arc<Controller>) -> Result<()> {
    let Some(registry) = controller.context.settings.registry.clone() else { return Ok(()) };
    let controller = controller.clone();
    runtime::spawn("registry", move || follow(&controller, &registry))
}

fn follow(controller: &Arc<Controller>, registry: &Registry) {
    let selection = Selection {
        target: SECRETS.collection(&registry.namespace),
        labels: &registry.selector,
        metadata_only: false,
        page: PAGE,
    };
    let mut watcher = Watcher::default();
    let mut members =
        RegistryMembers { controller, remotes: BTreeMap::new(), listed: Vec::new(), full: false };
    in_local_sessions(controller, |session| {
        // A cluster that was disconnected may have been restored.
        watcher.relist();
        watcher.run(&session.client, &selection, &session.stop, &mut |event| {
            members.handle_event(event);
            ControlFlow::Continue(())
        });
    });
}

/// The members of the registry.
struct RegistryMembers<'a> {
    controller: &'a Arc<Controller>,
    /// By name.
    remotes: BTreeMap<String, RegistryMember>,
    /// The names in the current list.
    listed: Vec<String>,
    /// Whether a member was skipped for lack of room since that list started.
    full: bool,
}

struct RegistryMember {
    /// The content of its Secret.
    offer: Result<ClusterConfig>,
    /// Whether it was added to the controller; otherwise it was skipped.
    added: bool,
    /// The uid of its Secret.
    secret: String,
}

impl RegistryMembers<'_> {
    fn handle_event(&mut self, event: Event<'_>) {
        match event {
            Event::Init { .. } => {
                self.listed.clear();
                self.full = false;
            }
            Event::InitApply(secret) => {
                let name = self.put(secret);
                self.listed.extend(name);
            }
            // One that names another cluster, or none, is as good as gone.
            Event::Apply(secret) if self.name_of(&secret).is_none() => self.gone(&secret),
            Event::Apply(secret) => drop(self.put(secret)),
            Event::Delete(secret) => self.gone(&secret),
            Event::InitDone => {
                let gone = self.remotes.keys().filter(|name| !self.listed.contains(name));
                for name in gone.cloned().collect::<Vec<_>>() {
                    self.remove(&name);
                }
                self.report_trouble(None);
                self.controller.all_known.store(true, Relaxed);
            }
            Event::Watching => self.report_trouble(None),
            Event::Failed(error) => self.report_trouble(Some(error.to_string())),
        }
    }

    /// Reports why some remotes of the registry are not followed.
    fn report_trouble(&self, failure: Option<String>) {
        let left_out = self.remotes.iter().filter(|(_, member)| !member.added);
        let left_out = left_out.map(|(name, _)| format!("remote {name} is skipped"));
        let full = format!("there are more than {MOST_REMOTES} remotes, the others are skipped");
        let full = Some(full).filter(|_| self.full);
        let troubles: Vec<_> = failure.into_iter().chain(full).chain(left_out).collect();
        self.controller
            .set_registry_trouble(Some(troubles.join("; ")).filter(|text| !text.is_empty()));
    }

    /// Handles a Secret; returns the name of its remote.
    fn put(&mut self, secret: Document) -> Option<String> {
        let name = self.name_of(&secret)?;
        if !self.remotes.contains_key(&name) && self.remotes.len() >= MOST_REMOTES {
            if !std::mem::replace(&mut self.full, true) {
                let reason = format!("there are {MOST_REMOTES} already");
                log_skipped(&name, &reason);
            }
            self.report_trouble(None);
            return None;
        }
        // Its deletion was missed.
        if self.remotes.get(&name).is_some_and(|member| member.secret != uid_of(&secret)) {
            self.remove(&name);
        }
        let added = self.remotes.remove(&name).is_some_and(|member| member.added);
        let member =
            RegistryMember { offer: offer(&secret), added, secret: uid_of(&secret).to_owned() };
        self.remotes.insert(name.clone(), member);
        self.offer(&name);
        self.report_trouble(None);
        Some(name)
    }

    /// The name of a Secret's cluster, if it holds a kubeconfig. Of a Secret that is too large only its own name
    /// is known: it belongs to the member of that name.
    fn name_of(&self, secret: &Document) -> Option<String> {
        match secret {
            Document::Whole(secret) => name_of(secret),
            Document::TooLarge(Head { namespace, name, .. }) => {
                let known = self.member_of(name);
                if known.is_none() {
                    log_object!(
                        Level::Warn, SECRETS.object(namespace, name), remote = OWN;
                        "the kubeconfig needs too much memory and is skipped"
                    );
                }
                known.map(str::to_owned)
            }
        }
    }

    /// The member that a Secret of this name belongs to.
    fn member_of<'b>(&self, secret: &'b str) -> Option<&'b str> {
        secret.strip_suffix(SECRET_SUFFIX).filter(|name| self.remotes.contains_key(*name))
    }

    /// Removes the member of a Secret, whatever cluster that names by now.
    fn gone(&mut self, secret: &Document) {
        let secret = match secret {
            Document::Whole(secret) => key::namespaced_name(secret).1,
            Document::TooLarge(head) => &head.name,
        };
        if let Some(name) = self.member_of(secret) {
            self.remove(name);
        }
    }

    fn offer(&mut self, name: &str) {
        let Some(member) = self.remotes.get_mut(name) else { return };
        if !member.added {
            if let Some(why) = refusal(self.controller, name) {
                return log_skipped(name, &why);
            }
            if let Err(error) = add_remote(self.controller, name, None) {
                return log::warn!(remote = name, error:% = error; "remote not added");
            }
            member.added = true;
            log::info!(remote = name; "remote added");
        }
        if let Some(remote) = self.controller.remotes().iter().find(|remote| remote.name == name) {
            let connection = &self.controller.remote_cluster(remote).connection;
            connection.offer(member.offer.clone());
        }
    }

    /// Removes a remote, whose objects stay, and its record: Cluster API makes a new cluster of a name with a new
    /// Secret. One that was skipped because of it may be added now.
    fn remove(&mut self, name: &str) {
        let Some(member) = self.remotes.remove(name) else { return };
        if member.added {
            self.controller.remove(name);
            self.controller.records.forget(name);
            log::info!(remote = name; "remote removed, its objects stay");
        }
        for name in self.remotes.keys().cloned().collect::<Vec<_>>() {
            if self.remotes.get(&name).is_some_and(|member| !member.added) {
                self.offer(&name);
            }
        }
        self.report_trouble(None);
    }
}

fn uid_of(secret: &Document) -> &str {
    match secret {
        Document::Whole(secret) => secret["metadata"]["uid"].as_str().unwrap_or_default(),
        Document::TooLarge(head) => &head.uid,
    }
}

/// The kubeconfig in a Secret.
fn offer(secret: &Document) -> Result<ClusterConfig> {
    match secret {
        Document::Whole(secret) => {
            let (namespace, name) = key::namespaced_name(secret);
            connection::secret_config(&format!("{namespace}/{name}"), secret, None)
        }
        Document::TooLarge(Head { namespace, name, .. }) => {
            Err(Error::TooLarge(format!("Secret {namespace}/{name} needs too much memory")))
        }
    }
}

/// The reason why a remote of this name cannot be added, if there is one.
fn refusal(controller: &Controller, name: &str) -> Option<String> {
    let remotes = controller.remotes();
    let others = remotes.iter().map(|remote| &*remote.name);
    if name == OWN || !valid_label(name) {
        return Some("its name is not valid for a remote".into());
    }
    if others.clone().any(|other| other == name) {
        return Some("another remote already has this name".into());
    }
    let other = controller.context.settings.clash(name, others)?;
    Some(format!("an object may belong to {other} too"))
}

/// The name of a Secret's cluster, if it holds a kubeconfig.
fn name_of(secret: &Value) -> Option<String> {
    let name = secret["metadata"]["labels"][CLUSTER_LABEL].as_str()?;
    (key::namespaced_name(secret).1.strip_suffix(SECRET_SUFFIX) == Some(name))
        .then(|| name.to_owned())
}

fn log_skipped(remote: &str, reason: &str) {
    log::warn!(remote, reason; "remote skipped");
}
