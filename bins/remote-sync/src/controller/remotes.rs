//! Remotes of the command line, which stay, and of the registry, which come and go with Cluster API's Secrets. Watches
//! follow the Secrets. One loop offers each remote the credentials from its file or Secret.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use apiclient::{
    error::{Error, Result},
    lock::lock,
    reflector::{Lookup, Store},
    resource::{SECRETS, valid_label},
    watch::Selection,
};
use kubeconfig::{config::ClusterConfig, secret};
use serde_json::Value;
use sidecar::runtime;

use crate::{
    connection::Connection,
    controller::Controller,
    model::{key, known_clusters::OWN},
    settings::{CLUSTER_LABEL, Remote, RemoteSource, SECRET_SUFFIX},
    sync::remote::RemoteSync,
};

/// How often files are read, always in full: a token or certificate file may be rotated without a change of the
/// kubeconfig's modification time. A read takes less than a millisecond.
const READ_INTERVAL: Duration = Duration::from_secs(5);
/// Limit of the registry's remotes: each takes several threads.
const MAX_REMOTES: usize = 1000;
/// Limit of the registry's Secrets. Cluster API labels five Secrets per cluster.
const MAX_SECRETS: usize = 8 * MAX_REMOTES;
/// Limit of all their values together, in bytes. Each is also held decoded.
const MAX_TOTAL_LENGTH: usize = 16 << 20;

/// Keys of the kubeconfig: Cluster API's (`util/secret/consts.go`), then Open Cluster Management's.
const KEYS: [&str; 2] = ["value", "kubeconfig"];

#[derive(Clone, PartialEq)]
struct KubeconfigSecret {
    uid: String,
    /// The size of its values, in bytes.
    length: usize,
    config: Result<ClusterConfig>,
}

type Secrets = Store<KubeconfigSecret>;
/// Secrets by the name of their cluster; `None` if a Secret cannot be used.
type ByCluster = BTreeMap<String, Option<KubeconfigSecret>>;

/// Returns what to offer a cluster now; `None` while that is unknown.
type Offer = Box<dyn Fn() -> Option<Result<ClusterConfig>> + Send>;

/// Starts the remotes of the command line, and follows the registry. `load_own` loads the local cluster's credentials.
pub(super) fn start(
    controller: &Arc<Controller>,
    load_own: impl Fn() -> Result<ClusterConfig> + Send + 'static,
) -> Result<()> {
    let settings = &controller.context.settings;
    let mut fixed: Vec<(Arc<Connection>, Offer)> = Vec::new();
    for Remote { name, source } in &settings.remotes {
        let offer: Offer = match source.clone() {
            RemoteSource::File(path) => {
                Box::new(move || Some(kubeconfig::from_file(&path).map_err(Into::into)))
            }
            RemoteSource::Secret { namespace, name: secret, key } => {
                let read = move |secret: Value| Some(read_secret(&secret, key.as_deref()));
                let store = Store::new(1);
                let place = (namespace.clone(), Some(secret.clone()), String::new());
                watch(controller, store.clone(), place, read)?;
                Box::new(move || offered_by(&store, &namespace, &secret))
            }
        };
        fixed.push((controller.add_remote(name)?.cluster.clone(), offer));
    }
    let registry = match settings.registry.clone() {
        Some(registry) => {
            let store = Secrets::new(MAX_SECRETS)
                .weighing_at_most(MAX_TOTAL_LENGTH, |secret| secret.length);
            let read =
                |secret: Value| cluster_of(&secret).is_some().then(|| read_secret(&secret, None));
            let place = (registry.namespace, None, registry.selector);
            watch(controller, store.clone(), place, read)?;
            let (controller, members) = (controller.clone(), BTreeMap::new());
            Some(Registry { controller, store, members, skipped: BTreeMap::new() })
        }
        None => None,
    };
    let controller = controller.clone();
    runtime::spawn("remotes", move || follow(&controller, &load_own, &fixed, registry))
}

/// Keeps `store` in sync with the labelled Secrets, or the named one, in all sessions of the local cluster.
fn watch(
    controller: &Arc<Controller>,
    store: Secrets,
    (namespace, name, labels): (String, Option<String>, String),
    mut read: impl FnMut(Value) -> Option<KubeconfigSecret> + Send + 'static,
) -> Result<()> {
    let controller = controller.clone();
    runtime::spawn("kubeconfig", move || {
        let target = match &name {
            Some(name) => SECRETS.object(&namespace, name),
            None => SECRETS.collection(&namespace),
        };
        let selection = Selection { labels: &labels, ..Selection::all(target) };
        while let Some(session) = controller.local_session() {
            let changed = &mut || controller.credentials.wake();
            store.run(&session.client, &selection, &session.stop, &mut read, changed);
        }
    })
}

/// Offers credentials to all clusters, until `stop` is raised.
fn follow(
    controller: &Controller,
    load_own: &dyn Fn() -> Result<ClusterConfig>,
    fixed: &[(Arc<Connection>, Offer)],
    mut registry: Option<Registry>,
) {
    let (own, mut was_connected) = (controller.local.cluster(), false);
    loop {
        let seen = controller.credentials.wakes();
        own.offer(load_own());
        // The identities of remotes are recorded on the local cluster.
        was_connected |= own.is_connected();
        if was_connected {
            for (connection, offer) in fixed {
                offer().into_iter().for_each(|offer| connection.offer(offer));
            }
            if let Some(registry) = &mut registry {
                registry.sync();
            }
        }
        if controller.credentials.wait_for_change(seen, Instant::now() + READ_INTERVAL) {
            return;
        }
    }
}

/// Returns what a remote's Secret offers it.
fn offered_by(store: &Secrets, namespace: &str, name: &str) -> Option<Result<ClusterConfig>> {
    match store.get(name) {
        Lookup::Object(secret) => Some(secret.config),
        Lookup::Absent => {
            Some(Err(Error::NotFound(format!("there is no Secret {namespace}/{name}"))))
        }
        Lookup::Invalid | Lookup::Unknown => {
            store.last_error().map(|why| Err(Error::Unreachable(why)))
        }
    }
}

struct Registry {
    controller: Arc<Controller>,
    store: Secrets,
    /// By name, with the uid of the Secret.
    members: BTreeMap<String, (Arc<RemoteSync>, String)>,
    skipped: BTreeMap<String, String>,
}

impl Registry {
    /// Adds and removes remotes, offers kubeconfigs to the others, and records why some are not followed.
    fn sync(&mut self) {
        if let Some(secrets) = self.store.read(|secrets| secrets.clone()) {
            let of = |name: &str| Some(name.strip_suffix(SECRET_SUFFIX)?.to_owned());
            let secrets = secrets.into_iter();
            let secrets: ByCluster =
                secrets.filter_map(|(name, it)| Some((of(&name)?, it))).collect();
            self.remove_gone(&secrets);
            let before = mem::take(&mut self.skipped);
            for (name, secret) in secrets {
                if let Err(why) = self.put(&name, secret) {
                    if before.get(&name) != Some(&why) {
                        log::warn!(remote = name, reason = why; "remote skipped");
                    }
                    self.skipped.insert(name, why);
                }
            }
            self.controller.all_known.store(true, Relaxed);
        }
        let is_full = self.controller.all_known.load(Relaxed) && !self.store.is_complete();
        let full = format!("there are more than {MAX_SECRETS} Secrets, the others are skipped");
        let reasons = self.store.last_error().into_iter().chain(is_full.then_some(full));
        let skipped = self.skipped.keys().map(|name| format!("remote {name} is skipped"));
        let trouble = reasons.chain(skipped).collect::<Vec<_>>().join("; ");
        let trouble = Some(trouble).filter(|text| !text.is_empty());
        *lock(&self.controller.registry_trouble) = trouble;
    }

    /// Removes remotes without a Secret. A recreated Secret means another cluster.
    fn remove_gone(&mut self, secrets: &ByCluster) {
        let is_complete = self.store.is_complete();
        let stays = |name: &String, uid: &str| match secrets.get(name) {
            Some(secret) => secret.as_ref().is_none_or(|secret| secret.uid == uid),
            None => !is_complete,
        };
        for (name, _) in self.members.extract_if(.., |name, (_, uid)| !stays(name, uid)) {
            self.controller.remove(&name);
            self.controller.context.records.forget(&name);
            log::info!(remote = name; "remote removed, its objects stay");
        }
    }

    /// Adds a remote, or offers it a changed kubeconfig; the error is why it is skipped.
    fn put(
        &mut self,
        name: &str,
        secret: Option<KubeconfigSecret>,
    ) -> std::result::Result<(), String> {
        let invalid = "its Secret needs too much memory, is not valid, or names another cluster";
        let secret = secret.ok_or(invalid)?;
        if let Some((remote, _)) = self.members.get(name) {
            remote.cluster.offer(secret.config);
            return Ok(());
        }
        self.refusal(name).map_or(Ok(()), Err)?;
        let remote = self.controller.add_remote(name).map_err(|error| error.to_string())?;
        log::info!(remote = name; "remote added");
        remote.cluster.offer(secret.config);
        self.members.insert(name.to_owned(), (remote, secret.uid));
        Ok(())
    }

    /// Returns why a remote with this name cannot be added, if so.
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

/// The name of a Secret's cluster; `None` unless the Secret holds a kubeconfig.
fn cluster_of(secret: &Value) -> Option<&str> {
    let name = secret["metadata"]["labels"][CLUSTER_LABEL].as_str()?;
    (key::namespaced_name(secret).1.strip_suffix(SECRET_SUFFIX) == Some(name)).then_some(name)
}

/// The kubeconfig under `key`, or under the first of the usual keys. A file name in it refers to another key.
fn secret_config(name: &str, secret: &Value, key: Option<&str>) -> Result<ClusterConfig> {
    let mut data = secret::data(secret)?;
    let usual = KEYS.into_iter().find(|key| data.contains_key(*key)).unwrap_or(KEYS[0]);
    let key = key.unwrap_or(usual);
    let missing = || Error::bad_config(format!("Secret {name} has no key {key:?} in its data"));
    let kubeconfig = data.remove(key).ok_or_else(missing)?;
    data.insert("kubeconfig".to_owned(), kubeconfig);
    Ok(kubeconfig::from_secret(name, &data)?)
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_key_is_the_named_one_or_else_value_or_else_kubeconfig() {
        for (keys, key, expected) in [
            (&["kubeconfig", "other", "value"][..], None, Ok("https://value")),
            (&["kubeconfig", "other", "value"], Some("other"), Ok("https://other")),
            (&["kubeconfig"], None, Ok("https://kubeconfig")),
            (&["a"], None, Err("Secret ns/x has no key \"value\" in its data")),
            (&["a"], Some("b"), Err("Secret ns/x has no key \"b\" in its data")),
        ] {
            let data = keys.iter().map(|key| {
                let kubeconfig = json!({"current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": format!("https://{key}")}}],
                    "users": [{"name": "u", "user": {}}]});
                ((*key).to_owned(), json!(BASE64_STANDARD.encode(kubeconfig.to_string())))
            });
            let secret = json!({"data": data.collect::<serde_json::Map<_, _>>()});
            let config = secret_config("ns/x", &secret, key);
            let server = config.map(|config| config.server).map_err(|error| error.to_string());
            assert_eq!(server.as_deref().map_err(String::as_str), expected, "{keys:?} {key:?}");
        }
    }
}
