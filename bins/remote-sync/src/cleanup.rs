//! Cleanup (`-cleanup`): lists every kind on every cluster, removes what is this instance's, and lists again until
//! nothing of it is left, so that the instance can be uninstalled. The objects stay, on both sides.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use apiclient::{
    client::Patch,
    error::{Error, Result},
    json::Document,
    log_object,
    resource::Target,
    watch::{self, Selection},
};
use log::Level;
use serde_json::Value;

use crate::{
    cache::{
        cluster::{ClusterClient, Turn},
        reflector::PAGE,
    },
    controller::{Controller, LocalCluster},
    model::{
        discovery::{self, ApiResource, ResourceArg},
        key::{self, ObjectKey},
    },
    once,
    sync::{
        cleanup::{Instance, Role},
        observed::SourceMarks,
    },
};

/// Objects that are collected at a time.
const BATCH: usize = 500;
/// Attempts at an object: others may be faster, but what comes back every time does not end.
const MOST_TRIES: u8 = 3;
/// The wait before the next list if something could not be cleaned.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Names in the last message.
const MOST_NAMES: usize = 10;

/// Cleans all clusters that can be reached.
///
/// # Errors
/// `Unavailable` with what is left: an object, or a cluster or kind that could not be looked at.
pub(crate) fn run(controller: &Controller) -> Result<()> {
    wait_for_clusters(controller)?;
    let (mut left, settings) = (Left::default(), &controller.context.settings);
    // Remotes that are not known, or were skipped.
    left.extend(controller.registry_trouble().map(|why| format!("registry: {why}")));
    let sources = source_marks(controller);
    for (_, wanted) in settings.resources.iter() {
        let mut unserved = None;
        let mut served = false;
        each_cluster(controller, |cluster, role| {
            let sweep = Sweep { controller, cluster, role, wanted, sources: &sources };
            match sweep.run(&mut left) {
                Ok(()) => served = true,
                Err(error @ Error::NotServed(_)) => unserved = Some(error.to_string()),
                Err(error) => left.extend([format!("{wanted} ({}): {error}", cluster.name())]),
            }
        });
        // On one cluster it may be gone, with all its objects; on none of them it is a mistake.
        left.extend(unserved.filter(|_| !served));
    }
    let Left { count, first } = left;
    match count {
        0 => Ok(()),
        _ => Err(once::unfinished(format!("{count} not cleaned: {}", first.join("; ")))),
    }
}

/// What is left: how much, and the first of it in words.
#[derive(Default)]
struct Left {
    count: usize,
    first: Vec<String>,
}

impl Left {
    fn extend(&mut self, left: impl IntoIterator<Item = String>) {
        for words in left {
            self.count += 1;
            if self.first.len() < MOST_NAMES {
                self.first.push(words);
            }
        }
    }
}

/// Waits until each cluster is connected or cannot be reached.
fn wait_for_clusters(controller: &Controller) -> Result<()> {
    once::wait_while(controller, "stopped before anything was done", || {
        let mut waits = once::awaits_remotes(controller);
        each_cluster(controller, |cluster, _| {
            let failed = once::is_unreachable(&cluster.connection);
            waits |= !failed && !cluster.connection.is_connected();
        });
        waits
    })
}

/// Calls `each` for the local cluster and all remotes, with the role that objects have there.
fn each_cluster(controller: &Controller, mut each: impl FnMut(&ClusterClient, Role)) {
    let (own, others) = match &controller.local {
        LocalCluster::Source(_) => (Role::Source, Role::Target),
        LocalCluster::Target(_) => (Role::Target, Role::Source),
    };
    each(controller.local.cluster(), own);
    for remote in controller.remotes().iter() {
        each(controller.remote_cluster(remote), others);
    }
}

/// How the marks of targets name the clusters that sources come from.
fn source_marks(controller: &Controller) -> Vec<SourceMarks> {
    let (mut all, digester) = (Vec::new(), &controller.context.reader.digester);
    each_cluster(controller, |cluster, role| {
        if role == Role::Source {
            let record = cluster.connection.cluster().unwrap_or_default();
            all.push(SourceMarks::new(digester, cluster.name(), &record));
        }
    });
    all
}

/// One kind on one cluster.
struct Sweep<'a> {
    controller: &'a Controller,
    cluster: &'a ClusterClient,
    role: Role,
    wanted: &'a ResourceArg,
    /// Of [`source_marks`].
    sources: &'a [SourceMarks],
}

/// An object that was tried, how often, and why it may still be marked.
type Tried = BTreeMap<ObjectKey, (u8, String)>;

/// The result of a list.
#[derive(Default)]
struct Found {
    /// Objects to clean, with their patches.
    marked: Vec<(ObjectKey, Value)>,
    /// Objects that were tried often enough, or could not be read.
    stuck: Vec<ObjectKey>,
}

impl Sweep<'_> {
    /// Cleans until a list shows nothing that is worth another try; adds to `left` what it shows.
    fn run(&self, left: &mut Left) -> Result<()> {
        let find = |client: &_| discovery::resolve(client, self.wanted);
        let kind = self.cluster.ask(&self.controller.stop, &find)?;
        let mut tried = Tried::new();
        loop {
            let Found { marked, stuck } = self.find(&kind, &tried)?;
            if self.controller.stop.raised() {
                return Err(once::unfinished("stopped before everything was done".into()));
            }
            if marked.is_empty() || self.controller.context.settings.dry_run {
                marked.iter().for_each(|(key, _)| self.log_dry_run(&kind, key));
                let why = |key: &ObjectKey| {
                    tried.get(key).map_or("it is too large to be read", |(_, why)| why)
                };
                let line =
                    |key| format!("{} {key} ({}): {}", self.wanted, self.cluster.name(), why(key));
                left.extend(stuck.iter().map(line));
                return Ok(());
            }
            let most = self.controller.context.settings.max_objects;
            if tried.len() >= most {
                return Err(once::unfinished(format!(
                    "there are more than {most}, see -max-objects"
                )));
            }
            let mut failed = false;
            for (key, patch) in marked {
                failed |= !self.clean(&kind, key, &patch, &mut tried);
            }
            if failed {
                self.controller.stop.wait(TRY_AGAIN);
            }
        }
    }

    /// Lists the whole cluster; without that right, the namespaces that the flags name.
    fn find(&self, kind: &ApiResource, tried: &Tried) -> Result<Found> {
        let (settings, mut found) = (&self.controller.context.settings, Found::default());
        let fixed = settings.mapping.fixed.as_ref().map(|fixed| &fixed.target);
        let namespaces: Vec<_> = match self.role {
            Role::Source => settings.source_namespaces.iter().collect(),
            Role::Target => fixed.into_iter().collect(),
        };
        match self.list(kind.resource.everywhere(), tried, &mut found) {
            Err(Error::Forbidden(_)) if !namespaces.is_empty() && kind.namespaced => {}
            listed => return listed.map(|()| found),
        }
        found = Found::default();
        for namespace in namespaces {
            if tried.is_empty() {
                let (remote, kind) = (self.cluster.name(), self.wanted.to_string());
                let namespace = namespace.as_str();
                log::warn!(remote, kind, namespace; "only this namespace can be listed");
            }
            self.list(kind.resource.collection(namespace), tried, &mut found)?;
        }
        Ok(found)
    }

    fn list(&self, target: Target<'_>, tried: &Tried, found: &mut Found) -> Result<()> {
        let selection = Selection { target, labels: "", metadata_only: true, page: PAGE };
        let context = &self.controller.context;
        let instance = Instance { reader: &context.reader, sources: self.sources };
        // All of them are logged.
        let most = if context.settings.dry_run { usize::MAX } else { BATCH };
        let mut see = |document: Document| {
            let object = match document {
                Document::Whole(object) => object,
                Document::TooLarge(head) => {
                    found.stuck.push(key::of(&head.namespace, &head.name));
                    return ControlFlow::Continue(());
                }
            };
            if let Some(patch) = self.role.patch(&object, &instance) {
                let (namespace, name) = key::namespaced_name(&object);
                let key = key::of(namespace, name);
                match tried.get(&key) {
                    Some((MOST_TRIES.., _)) => found.stuck.push(key),
                    _ => found.marked.push((key, patch)),
                }
            }
            match found.marked.len() >= most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let stop = &self.controller.stop;
        let turn = Turn::new(self.cluster, stop);
        turn.ask(|client| watch::list(client, &selection, stop, &mut see))
    }

    /// Returns whether it succeeded.
    fn clean(&self, kind: &ApiResource, key: ObjectKey, patch: &Value, tried: &mut Tried) -> bool {
        let (namespace, name) = key::split(&key);
        let target = kind.resource.object_in(namespace, name);
        let stop = &self.controller.stop;
        let (remote, action) = (self.cluster.name(), self.role.action());
        let cleaned = self.cluster.ask(stop, &|client| client.patch(&target, Patch::Json, patch));
        let (done, why) = match cleaned {
            // NotFound: a source that was only waiting for its finalizer.
            Ok(_) | Err(Error::NotFound(_)) => {
                log_object!(Level::Info, target, remote = remote, action = action; "cleaned");
                (true, "something marks it again, is the instance still running?".to_owned())
            }
            Err(error) => {
                log_object!(
                    Level::Warn, target, remote = remote, action = action, error:% = error;
                    "cleanup failed"
                );
                (false, error.to_string())
            }
        };
        let tries = tried.get(&key).map_or(0, |(tries, _)| *tries);
        tried.insert(key, (tries + 1, why));
        done
    }

    fn log_dry_run(&self, kind: &ApiResource, key: &str) {
        let (namespace, name) = key::split(key);
        let target = kind.resource.object_in(namespace, name);
        let (remote, action) = (self.cluster.name(), self.role.action());
        log_object!(
            Level::Info, target, remote = remote, action = action;
            "dry run, nothing written"
        );
    }
}
