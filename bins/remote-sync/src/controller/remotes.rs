//! Remotes: those of the command line stay, those of the registry come and go with their Secrets, as Cluster API
//! creates them. Watches keep the Secrets, and one loop compares them, and the files, with the remotes.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use apiclient::{
    error::{Error, Result},
    reflector::{Lookup, Store},
    resource::{SECRETS, valid_label},
    stop::Stop,
    watch::Selection,
};
use kubeconfig::config::ClusterConfig;
use serde_json::Value;
use sidecar::runtime;

use crate::{
    cache::reflector::PAGE,
    connection::{Connection, secret_config},
    controller::{
        Controller,
        clusters::{add_remote, in_local_sessions, local_session},
    },
    model::key,
    settings::{CLUSTER_LABEL, OWN, RemoteSource, SECRET_SUFFIX},
    sync::remote::RemoteSync,
};

/// Interval at which files are read, always completely: a token or certificate next to the kubeconfig may be
/// rotated, which the kubeconfig's own time does not show. It takes less than a millisecond.
const READ_INTERVAL: Duration = Duration::from_secs(5);
/// Remotes of the registry: each takes some threads.
const MAX_REMOTES: usize = 1000;
/// Secrets of the registry. Cluster API labels five of each cluster.
const MAX_SECRETS: usize = 8 * MAX_REMOTES;
/// Bytes of all their values together; each is held decoded, too.
const MAX_TOTAL_LENGTH: usize = 16 << 20;

/// A Secret with a kubeconfig.
#[derive(Clone, PartialEq)]
struct KubeconfigSecret {
    uid: String,
    /// Of its values, in bytes.
    length: usize,
    config: Result<ClusterConfig>,
}

/// Secrets by name; `None` is one of the registry that names no cluster.
type Secrets = Store<Option<KubeconfigSecret>>;

/// The source of the kubeconfig of a remote that stays.
enum KubeconfigSource {
    File(PathBuf),
    Secret { namespace: String, name: String, store: Secrets },
}

/// Starts the remotes of the command line, and those of the registry as they come.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn start(controller: &Arc<Controller>) -> Result<()> {
    let (settings, changed) = (&controller.context.settings, controller.stop.child());
    let mut fixed = Vec::new();
    for configured in &settings.remotes {
        let file = match &configured.source {
            RemoteSource::File(path) => Some(path.clone()),
            RemoteSource::Secret { .. } => None,
        };
        let remote = add_remote(controller, &configured.name, file)?;
        let source = match configured.source.clone() {
            RemoteSource::File(path) => KubeconfigSource::File(path),
            RemoteSource::Secret { namespace, name, key } => {
                let read = move |secret: Value| Some(Some(read_secret(&secret, key.as_deref())));
                let store = Store::new(1);
                let place = (namespace.clone(), Some(name.clone()), String::new());
                watch(controller, &changed, store.clone(), place, read)?;
                KubeconfigSource::Secret { namespace, name, store }
            }
        };
        fixed.push((controller.remote_cluster(&remote).connection.clone(), source));
    }
    let registry = match settings.registry.clone() {
        Some(registry) => {
            let weigh = |secret: &Option<KubeconfigSecret>| {
                secret.as_ref().map_or(0, |secret| secret.length)
            };
            let store = Secrets::new(MAX_SECRETS).weighing_at_most(MAX_TOTAL_LENGTH, weigh);
            let read = |secret: Value| {
                Some(cluster_of(&secret).is_some().then(|| read_secret(&secret, None)))
            };
            let place = (registry.namespace, None, registry.selector);
            watch(controller, &changed, store.clone(), place, read)?;
            let (controller, members) = (controller.clone(), BTreeMap::new());
            Some(Registry { controller, store, seen: None, members, skipped: BTreeMap::new() })
        }
        None => None,
    };
    if fixed.is_empty() && registry.is_none() {
        return Ok(());
    }
    let controller = controller.clone();
    runtime::spawn("remotes", move || follow(&controller, &changed, &fixed, registry))
}

/// Keeps `store` in sync with Secrets in all sessions of the local cluster: those with a label, or the one of a name.
fn watch(
    controller: &Arc<Controller>,
    changed: &Stop,
    store: Secrets,
    (namespace, name, labels): (String, Option<String>, String),
    mut read: impl FnMut(Value) -> Option<Option<KubeconfigSecret>> + Send + 'static,
) -> Result<()> {
    let (controller, changed) = (controller.clone(), changed.clone());
    runtime::spawn("kubeconfig", move || {
        let target = match &name {
            Some(name) => SECRETS.object(&namespace, name),
            None => SECRETS.collection(&namespace),
        };
        let selection = Selection { labels: &labels, page: PAGE, ..Selection::all(target) };
        in_local_sessions(&controller, |session| {
            let changed = &mut || changed.wake();
            store.run(&session.client, &selection, &session.stop, &mut read, changed);
        });
    })
}

/// Offers kubeconfigs to their connections until `changed` is raised.
fn follow(
    controller: &Controller,
    changed: &Stop,
    fixed: &[(Arc<Connection>, KubeconfigSource)],
    mut registry: Option<Registry>,
) {
    // The local cluster knows which cluster each remote is.
    if local_session(controller).is_none() {
        return;
    }
    let reach = controller.context.settings.reach;
    loop {
        let seen = changed.wakes();
        for (connection, source) in fixed {
            match source {
                KubeconfigSource::File(path) => {
                    connection.offer(kubeconfig::from_file(path, reach).map_err(Into::into));
                }
                KubeconfigSource::Secret { namespace, name, store } => {
                    offer_secret(connection, &format!("{namespace}/{name}"), name, store);
                }
            }
        }
        if let Some(registry) = &mut registry {
            registry.sync();
        }
        if changed.wait_for_change(seen, Instant::now() + READ_INTERVAL) {
            return;
        }
    }
}

fn offer_secret(connection: &Connection, place: &str, name: &str, store: &Secrets) {
    match store.get(name) {
        Lookup::Object(secret) => secret.into_iter().for_each(|it| connection.offer(it.config)),
        Lookup::Absent => connection.withdraw(&format!("there is no Secret {place}")),
        Lookup::Invalid | Lookup::Unknown => {
            if let Some(why) = store.last_error() {
                connection.offer(Err(Error::Unreachable(why)));
            }
        }
    }
}

/// The remotes of the registry.
struct Registry {
    controller: Arc<Controller>,
    store: Secrets,
    /// The store's revision of the last [`sync`](Self::sync).
    seen: Option<u64>,
    /// By name.
    members: BTreeMap<String, RegistryMember>,
    /// The reasons why others are not followed.
    skipped: BTreeMap<String, String>,
}

struct RegistryMember {
    remote: Arc<RemoteSync>,
    /// The uid of its Secret.
    secret: String,
}

impl Registry {
    /// Adds and removes remotes, and offers the others their kubeconfigs.
    fn sync(&mut self) {
        let revision = Some(self.store.revision());
        if std::mem::replace(&mut self.seen, revision) == revision {
            return self.report();
        }
        let (mut secrets, mut invalid) = (BTreeMap::new(), Vec::new());
        let listed = self.store.read(|objects| {
            for (name, secret) in objects {
                let Some(name) = name.strip_suffix(SECRET_SUFFIX) else { continue };
                match secret {
                    Some(Some(secret)) => drop(secrets.insert(name.to_owned(), secret.clone())),
                    Some(None) => {}
                    None => invalid.push(name.to_owned()),
                }
            }
        });
        if listed.is_some() {
            self.remove_gone(&secrets, &invalid);
            for (name, secret) in secrets {
                self.put(&name, secret);
            }
            for name in invalid {
                self.skip(&name, "its Secret needs too much memory, or is not valid");
            }
            self.controller.all_known.store(true, Relaxed);
        }
        self.report();
    }

    /// Removes the remotes without a Secret; a Secret that was made anew is another cluster's.
    fn remove_gone(&mut self, secrets: &BTreeMap<String, KubeconfigSecret>, invalid: &[String]) {
        let is_complete = self.store.is_complete();
        let stays = |name: &String, uid: &str| match secrets.get(name) {
            Some(secret) => secret.uid == uid,
            None => !is_complete || invalid.contains(name),
        };
        let gone = self.members.extract_if(.., |name, member| !stays(name, &member.secret));
        for (name, _) in gone {
            self.controller.remove(&name);
            self.controller.records.forget(&name);
            log::info!(remote = name; "remote removed, its objects stay");
        }
        self.skipped.retain(|name, _| secrets.contains_key(name) || invalid.contains(name));
    }

    fn put(&mut self, name: &str, secret: KubeconfigSecret) {
        if !self.members.contains_key(name) {
            if let Some(why) = self.refusal(name) {
                return self.skip(name, &why);
            }
            let remote = match add_remote(&self.controller, name, None) {
                Ok(remote) => remote,
                Err(error) => return self.skip(name, &error.to_string()),
            };
            log::info!(remote = name; "remote added");
            self.skipped.remove(name);
            let member = RegistryMember { remote, secret: secret.uid };
            self.members.insert(name.to_owned(), member);
        }
        if let Some(member) = self.members.get(name) {
            self.controller.remote_cluster(&member.remote).connection.offer(secret.config);
        }
    }

    /// The reason why a remote of this name cannot be added, if there is one.
    fn refusal(&self, name: &str) -> Option<String> {
        let remotes = self.controller.remotes();
        let others = remotes.iter().map(|remote| &*remote.name);
        if name == OWN || !valid_label(name) {
            return Some("its name is not valid for a remote".into());
        }
        if others.clone().any(|other| other == name) {
            return Some("another remote already has this name".into());
        }
        if self.members.len() >= MAX_REMOTES {
            return Some(format!("there are {MAX_REMOTES} already"));
        }
        let other = self.controller.context.settings.clash(name, others)?;
        Some(format!("an object may belong to {other} too"))
    }

    fn skip(&mut self, remote: &str, reason: &str) {
        let before = self.skipped.insert(remote.to_owned(), reason.to_owned());
        if before.as_deref() != Some(reason) {
            log::warn!(remote, reason; "remote skipped");
        }
    }

    /// Reports why some remotes are not followed.
    fn report(&self) {
        let full = format!("there are more than {MAX_SECRETS} Secrets, the others are skipped");
        let is_full = self.controller.all_known.load(Relaxed) && !self.store.is_complete();
        let skipped = self.skipped.keys().map(|name| format!("remote {name} is skipped"));
        let reasons = self.store.last_error().into_iter().chain(is_full.then_some(full));
        let trouble = reasons.chain(skipped).collect::<Vec<_>>().join("; ");
        self.controller.set_registry_trouble(Some(trouble).filter(|text| !text.is_empty()));
    }
}

fn read_secret(secret: &Value, key: Option<&str>) -> KubeconfigSecret {
    let (namespace, name) = key::namespaced_name(secret);
    let values = secret["data"].as_object().into_iter().flatten();
    KubeconfigSecret {
        length: values.filter_map(|(_, value)| value.as_str()).map(str::len).sum(),
        uid: secret["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        config: secret_config(&format!("{namespace}/{name}"), secret, key),
    }
}

/// The name of a Secret's cluster, if it holds a kubeconfig.
fn cluster_of(secret: &Value) -> Option<&str> {
    let name = secret["metadata"]["labels"][CLUSTER_LABEL].as_str()?;
    (key::namespaced_name(secret).1.strip_suffix(SECRET_SUFFIX) == Some(name)).then_some(name)
}
