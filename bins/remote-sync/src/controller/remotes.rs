//! Remotes: those of the command line stay, those of the registry come and go with their Secrets, as Cluster API
//! creates them. Watches keep the Secrets, and one loop compares them, and the files, with the remotes.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use apiclient::{
    error::{Error, Result},
    reflector::{Lookup, Store},
    resource::{SECRETS, valid_label},
    watch::Selection,
};
use kubeconfig::{config::ClusterConfig, secret};
use serde_json::Value;
use sidecar::runtime;

use crate::{
    connection::Connection,
    controller::{
        Controller,
        clusters::{add_remote, local_session},
    },
    model::key,
    settings::{CLUSTER_LABEL, OWN, Remote, RemoteSource, SECRET_SUFFIX},
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

/// The key of Cluster API (`util/secret/consts.go`), then that of Open Cluster Management.
const KEYS: [&str; 2] = ["value", "kubeconfig"];

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

/// What a cluster is offered at present; `None` while that is not known.
type Offer = Box<dyn Fn() -> Option<Result<ClusterConfig>> + Send>;

/// Starts the remotes of the command line, and those of the registry as they come. `load_own` loads the credentials of the
/// local cluster.
///
/// # Errors
/// `BadConfig` if no thread can be started.
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
                let read = move |secret: Value| Some(Some(read_secret(&secret, key.as_deref())));
                let store = Store::new(1);
                let place = (namespace.clone(), Some(secret.clone()), String::new());
                watch(controller, store.clone(), place, read)?;
                Box::new(move || offered_by(&store, &namespace, &secret))
            }
        };
        fixed.push((add_remote(controller, name)?.cluster.clone(), offer));
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
            watch(controller, store.clone(), place, read)?;
            let (controller, members) = (controller.clone(), BTreeMap::new());
            Some(Registry { controller, store, seen: None, members, skipped: BTreeMap::new() })
        }
        None => None,
    };
    let controller = controller.clone();
    runtime::spawn("remotes", move || follow(&controller, &load_own, &fixed, registry))
}

/// Keeps `store` in sync with Secrets in all sessions of the local cluster: those with a label, or the one of a name.
fn watch(
    controller: &Arc<Controller>,
    store: Secrets,
    (namespace, name, labels): (String, Option<String>, String),
    mut read: impl FnMut(Value) -> Option<Option<KubeconfigSecret>> + Send + 'static,
) -> Result<()> {
    let controller = controller.clone();
    runtime::spawn("kubeconfig", move || {
        let target = match &name {
            Some(name) => SECRETS.object(&namespace, name),
            None => SECRETS.collection(&namespace),
        };
        let selection = Selection { labels: &labels, ..Selection::all(target) };
        while let Some(session) = local_session(&controller) {
            let changed = &mut || controller.credentials.wake();
            store.run(&session.client, &selection, &session.stop, &mut read, changed);
        }
    })
}

/// Offers all clusters their credentials, until the end.
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
        // The local cluster knows which cluster each remote is.
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

/// What a remote is offered by its Secret.
fn offered_by(store: &Secrets, namespace: &str, name: &str) -> Option<Result<ClusterConfig>> {
    match store.get(name) {
        Lookup::Object(secret) => secret.map(|secret| secret.config),
        Lookup::Absent => {
            Some(Err(Error::NotFound(format!("there is no Secret {namespace}/{name}"))))
        }
        Lookup::Invalid | Lookup::Unknown => {
            store.last_error().map(|why| Err(Error::Unreachable(why)))
        }
    }
}

/// Secrets by the name of their cluster; `None` is one that cannot be read.
type ByCluster = BTreeMap<String, Option<KubeconfigSecret>>;

fn by_cluster(secrets: &BTreeMap<String, Option<Option<KubeconfigSecret>>>) -> ByCluster {
    let of = |(name, secret): (&String, &Option<Option<KubeconfigSecret>>)| {
        let name = name.strip_suffix(SECRET_SUFFIX)?.to_owned();
        // Without a valid one, it may be a member's.
        secret.as_ref().map_or(Some(None), |secret| secret.clone().map(Some)).map(|it| (name, it))
    };
    secrets.iter().filter_map(of).collect()
}

/// The remotes of the registry.
struct Registry {
    controller: Arc<Controller>,
    store: Secrets,
    /// The store's revision of the last [`sync`](Self::sync).
    seen: Option<u64>,
    /// By name, with the uid of its Secret.
    members: BTreeMap<String, (Arc<RemoteSync>, String)>,
    /// The reasons why others are not followed.
    skipped: BTreeMap<String, String>,
}

impl Registry {
    /// Adds and removes remotes, and offers the others their kubeconfigs.
    fn sync(&mut self) {
        let revision = Some(self.store.revision());
        if std::mem::replace(&mut self.seen, revision) != revision
            && let Some(secrets) = self.store.read(by_cluster)
        {
            self.remove_gone(&secrets);
            for (name, secret) in secrets {
                let invalid = || "its Secret needs too much memory, or is not valid".to_owned();
                if let Err(why) = secret.ok_or_else(invalid).and_then(|it| self.put(&name, it)) {
                    self.skip(name, why);
                }
            }
            self.controller.all_known.store(true, Relaxed);
        }
        self.report();
    }

    /// Removes the remotes without a Secret; a Secret that was made anew is another cluster's.
    fn remove_gone(&mut self, secrets: &ByCluster) {
        let is_complete = self.store.is_complete();
        let stays = |name: &String, uid: &str| match secrets.get(name) {
            Some(secret) => secret.as_ref().is_none_or(|secret| secret.uid == uid),
            None => !is_complete,
        };
        for (name, _) in self.members.extract_if(.., |name, (_, uid)| !stays(name, uid)) {
            self.controller.remove(&name);
            self.controller.records.forget(&name);
            log::info!(remote = name; "remote removed, its objects stay");
        }
        self.skipped.retain(|name, _| secrets.contains_key(name));
    }

    /// Adds a remote, or offers it another kubeconfig; fails with the reason why it is skipped.
    fn put(&mut self, name: &str, secret: KubeconfigSecret) -> std::result::Result<(), String> {
        if !self.members.contains_key(name) {
            self.refusal(name).map_or(Ok(()), Err)?;
            let remote = add_remote(&self.controller, name).map_err(|it| it.to_string())?;
            log::info!(remote = name; "remote added");
            self.members.insert(name.to_owned(), (remote, secret.uid));
        }
        self.skipped.remove(name);
        if let Some((remote, _)) = self.members.get(name) {
            remote.cluster.offer(secret.config);
        }
        Ok(())
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

    fn skip(&mut self, remote: String, reason: String) {
        if self.skipped.get(&remote) != Some(&reason) {
            log::warn!(remote, reason; "remote skipped");
        }
        self.skipped.insert(remote, reason);
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

/// The kubeconfig under `key`, or under the first of the usual keys that exists. Files that it refers to are
/// other keys.
///
/// # Errors
/// `BadConfig` says which part is unusable.
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

    const KUBECONFIG: &str = r#"{"current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://SERVER"}}],
        "users": [{"name": "u", "user": {USER}}]}"#;

    fn secret(entries: &[(&str, &str, &str)]) -> Value {
        let data = entries.iter().map(|(key, server, user)| {
            let text = KUBECONFIG.replace("SERVER", server).replace("USER", user);
            ((*key).to_owned(), json!(BASE64_STANDARD.encode(text)))
        });
        json!({"data": data.collect::<serde_json::Map<_, _>>()})
    }

    #[test]
    fn the_key_is_the_named_one_or_else_value_or_else_kubeconfig() {
        let server = |secret: &Value, key| secret_config("ns/x", secret, key).unwrap().server;
        let all = secret(&[("kubeconfig", "k", ""), ("other", "o", ""), ("value", "v", "")]);
        assert_eq!(server(&all, None), "https://v");
        assert_eq!(server(&all, Some("other")), "https://o");
        assert_eq!(server(&secret(&[("kubeconfig", "k", "")]), None), "https://k");
    }

    #[test]
    fn a_missing_key_is_named() {
        let error =
            |key| secret_config("ns/x", &secret(&[("a", "s", "")]), key).unwrap_err().to_string();
        assert_eq!(error(None), "Secret ns/x has no key \"value\" in its data");
        assert_eq!(error(Some("b")), "Secret ns/x has no key \"b\" in its data");
    }

    #[test]
    fn programs_that_would_get_credentials_are_not_run() {
        for (user, field) in [
            (r#""exec": {"command": "aws"}"#, "aws"),
            (r#""auth-provider": {"name": "oidc"}"#, "auth-provider"),
        ] {
            let error = secret_config("ns/x", &secret(&[("value", "s", user)]), None).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(field) && text.contains("not supported"), "{text}");
        }
    }
}
