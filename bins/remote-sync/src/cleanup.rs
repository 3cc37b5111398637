//! Cleanup (`-cleanup`): lists every kind on every cluster, patches what is this instance's, and lists again until
//! nothing of it is left, so that the instance can be uninstalled. The objects stay, on both sides.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc, time::Duration};

use apiclient::{
    client::{Client, Patch},
    error::{Error, Result},
    json::Document,
    log_object,
    resource::{Resource, Target},
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
const MAX_TRIES: u8 = 3;
/// The wait before the next list if something could not be cleaned.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Names in the last message.
const MAX_NAMES: usize = 10;

/// Cleans all clusters that can be reached.
///
/// # Errors
/// `Unavailable` with what is left: an object, or a cluster or kind that could not be looked at.
pub(crate) fn run(controller: &Controller) -> Result<()> {
    once::wait_while(controller, "stopped before anything was done", || {
        let waits = |(cluster, _): (Arc<ClusterClient>, Role)| {
            !once::is_unreachable(&cluster.connection) && !cluster.connection.is_connected()
        };
        once::awaits_remotes(controller) || clusters(controller).into_iter().any(waits)
    })?;
    let mut left = Left::default();
    // Remotes that are not known, or were skipped.
    controller.registry_trouble().into_iter().for_each(|why| left.add(format!("registry: {why}")));
    let (clusters, context) = (clusters(controller), &controller.context);
    let sources = clusters.iter().filter(|(_, role)| *role == Role::Source).map(|(cluster, _)| {
        let record = cluster.connection.cluster().unwrap_or_default();
        SourceMarks::new(cluster.name(), &record)
    });
    let instance = Instance { reader: &context.reader, sources: &sources.collect::<Vec<_>>() };
    for (_, wanted) in context.settings.resources.iter() {
        let (mut unserved, mut served) = (None, false);
        for (cluster, role) in &clusters {
            let (instance, role) = (&instance, *role);
            match (Sweep { controller, cluster, role, wanted, instance }).run(&mut left) {
                Ok(()) => served = true,
                Err(error @ Error::NotServed(_)) => unserved = Some(error.to_string()),
                Err(error) => left.add(format!("{wanted} ({}): {error}", cluster.name())),
            }
        }
        // On one cluster it may be gone, with all its objects; on none of them it is a mistake.
        unserved.filter(|_| !served).into_iter().for_each(|why| left.add(why));
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
    fn add(&mut self, words: String) {
        self.count += 1;
        if self.first.len() < MAX_NAMES {
            self.first.push(words);
        }
    }
}

/// The local cluster and all remotes, with the role that objects have there.
fn clusters(controller: &Controller) -> Vec<(Arc<ClusterClient>, Role)> {
    let (own, others) = match &controller.local {
        LocalCluster::Source(_) => (Role::Source, Role::Target),
        LocalCluster::Target(_) => (Role::Target, Role::Source),
    };
    let mut all = vec![(controller.local.cluster().clone(), own)];
    let remotes = controller.remotes();
    all.extend(remotes.iter().map(|remote| (controller.remote_cluster(remote).clone(), others)));
    all
}

/// One kind on one cluster.
struct Sweep<'a> {
    controller: &'a Controller,
    cluster: &'a ClusterClient,
    role: Role,
    wanted: &'a ResourceArg,
    instance: &'a Instance<'a>,
}

/// An object that was tried, how often, and why it may still be marked.
type Tried = BTreeMap<ObjectKey, (u8, String)>;

impl Sweep<'_> {
    /// Cleans until a list shows nothing that is worth another try; adds the rest to `left`.
    fn run(&self, left: &mut Left) -> Result<()> {
        let (settings, stop) = (&self.controller.context.settings, &self.controller.stop);
        let ApiResource { resource: kind, namespaced, .. } =
            self.cluster.ask(stop, &|client| discovery::resolve(client, self.wanted))?;
        let mut tried = Tried::new();
        loop {
            let mut stuck = Left::default();
            let marked = self.find((&kind, namespaced), &tried, &mut stuck)?;
            if stop.raised() {
                return Err(once::unfinished("stopped before everything was done".into()));
            }
            if settings.dry_run {
                marked.iter().for_each(|(key, _)| self.log(&kind, key, "dry run, nothing written"));
            }
            if marked.is_empty() || settings.dry_run {
                left.count += stuck.count;
                left.first.extend(stuck.first);
                left.first.truncate(MAX_NAMES);
                return Ok(());
            }
            let most = settings.max_objects;
            if tried.len() >= most {
                let why = format!("there are more than {most}, see -max-objects");
                return Err(once::unfinished(why));
            }
            let mut failed = false;
            for (key, patch) in marked {
                failed |= !self.clean(&kind, key, &patch, &mut tried);
            }
            if failed {
                stop.wait(RETRY_INTERVAL);
            }
        }
    }

    /// Lists the marked objects of the whole cluster; without that right, those of the namespace that the flags name.
    fn find(
        &self,
        (kind, namespaced): (&Resource, bool),
        tried: &Tried,
        stuck: &mut Left,
    ) -> Result<Marked> {
        let (settings, mut found) = (&self.controller.context.settings, Marked::new());
        let mapping = &settings.mapping;
        let namespace = match self.role {
            Role::Source => &mapping.source_namespace,
            Role::Target => &mapping.target_namespace,
        };
        match self.list(kind.everywhere(), tried, &mut found, stuck) {
            Err(Error::Forbidden(_)) if namespaced && namespace.is_some() => {}
            listed => return listed.map(|()| found),
        }
        if let Some(namespace) = namespace {
            if tried.is_empty() {
                let (remote, kind) = (self.cluster.name(), self.wanted.to_string());
                let namespace = namespace.as_str();
                log::warn!(remote, kind, namespace; "only this namespace can be listed");
            }
            self.list(kind.collection(namespace), tried, &mut found, stuck)?;
        }
        Ok(found)
    }

    fn list(
        &self,
        target: Target<'_>,
        tried: &Tried,
        found: &mut Marked,
        stuck: &mut Left,
    ) -> Result<()> {
        let selection = Selection { metadata_only: true, page: PAGE, ..Selection::all(target) };
        // A dry run logs all of them.
        let most = if self.controller.context.settings.dry_run { usize::MAX } else { BATCH };
        let mut skip = |key: &str, why: &str| {
            stuck.add(format!("{} {key} ({}): {why}", self.wanted, self.cluster.name()));
        };
        let mut see = |document: Document| {
            match document {
                Document::TooLarge(head) => {
                    skip(&key::of(&head.namespace, &head.name), "it is too large to be read");
                }
                Document::Whole(object) => {
                    let (namespace, name) = key::namespaced_name(&object);
                    let key = key::of(namespace, name);
                    match (self.role.patch(&object, self.instance), tried.get(&key)) {
                        (None, _) => {}
                        (Some(_), Some((MAX_TRIES.., why))) => skip(&key, why),
                        (Some(patch), _) => found.push((key, patch)),
                    }
                }
            }
            match found.len() >= most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let stop = &self.controller.stop;
        let turn = Turn::new(self.cluster, stop);
        turn.ask(|client| watch::list(client, &selection, stop, &mut see))
    }

    /// Returns whether it succeeded.
    fn clean(&self, kind: &Resource, key: ObjectKey, patch: &Value, tried: &mut Tried) -> bool {
        let (namespace, name) = key::split(&key);
        let target = kind.object_in(namespace, name);
        let write = |client: &Client| client.patch(&target, Patch::Json, patch);
        let (done, why) = match self.cluster.ask(&self.controller.stop, &write) {
            // NotFound: a source that was only waiting for its finalizer.
            Ok(_) | Err(Error::NotFound(_)) => {
                self.log(kind, &key, "cleaned");
                (true, "something marks it again, is the instance still running?".to_owned())
            }
            Err(error) => {
                let (remote, action) = (self.cluster.name(), self.role.action());
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

    fn log(&self, kind: &Resource, key: &str, what: &str) {
        let (namespace, name) = key::split(key);
        let (remote, action) = (self.cluster.name(), self.role.action());
        let target = kind.object_in(namespace, name);
        log_object!(Level::Info, target, remote = remote, action = action; "{what}");
    }
}

/// Objects to clean, with their patches.
type Marked = Vec<(ObjectKey, Value)>;
