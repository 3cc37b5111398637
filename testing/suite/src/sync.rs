//! The stage of copies between clusters: the local cluster and its remotes, various kinds, and remote-sync between them
//! with only the rights and settings that it needs.
//!
//! On the real control plane, all tests share two servers. There, each uses only namespaces that begin with its own
//! name.

mod kinds;
pub mod load;
mod place;
mod program;
mod rights;
mod writes;

use std::{path::PathBuf, sync::Arc, time::Duration};

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Action, Rule};
use serde_json::{Value, json};
use tempfile::TempDir;

pub use self::{
    kinds::{
        BUDGETS, CONFIGS, Kind, REGIONS, SETTINGS, WIDGETS, any_content, definitions, ensure,
        install, namespaces, reshape, secrets,
    },
    place::Place,
    program::{FAST, Setting},
    writes::{LoggedWrite, Wrote, words},
};
use crate::{cluster::Cluster, files, identity, real, relay::Relay};

/// The prefix of the annotations and the finalizer.
pub const PREFIX: &str = "cloud.teleport.dev";
pub const FINALIZER: &str = "cloud.teleport.dev/sync-local";
pub const PAUSED: &str = "cloud.teleport.dev/paused";
pub const HASH: &str = "cloud.teleport.dev/last-uploaded-hash";
pub const REMOTE_GENERATION: &str = "cloud.teleport.dev/sync-remote-generation";
pub const LOCAL_GENERATION: &str = "cloud.teleport.dev/sync-local-generation";
/// On the target, which object it is a copy of; on its namespace, for which object it was created.
pub const SOURCE: &str = "cloud.teleport.dev/source";
/// The ConfigMap with the records of known clusters, by the default name of the Lease.
pub const KNOWN_CLUSTERS: &str = "remote-sync-known-clusters";
/// Its service account, on every cluster.
const ACCOUNT: &str = "remote-sync";

/// A cluster, and the program's relay to it.
pub struct Side {
    /// The program's name for it; empty for the local cluster.
    pub name: String,
    pub cluster: Arc<Cluster>,
    pub relay: Relay,
    /// The namespace of the program's account.
    pub home: String,
}

/// The clusters, and the program's settings for them.
pub struct Stage {
    /// The cluster of -kubeconfig.
    pub own: Side,
    pub remotes: Vec<Side>,
    /// The canonical namespace; the names of others on this stage begin with it.
    pub namespace: String,
    pub setting: Setting,
    pub directory: TempDir,
}

impl Side {
    pub fn new(name: &str, cluster: Arc<Cluster>) -> Self {
        kinds::ensure(&cluster);
        let relay = Relay::to(&cluster.address);
        let home = cluster.new_namespace("sync-home");
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
        cluster.apply(&account, &home);
        Self { name: name.to_owned(), cluster, relay, home }
    }

    /// Returns the program's user there.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{ACCOUNT}", self.home)
    }

    /// Requests a token of that user.
    pub fn token(&self) -> String {
        identity::token(&self.cluster, &self.home, ACCOUNT)
    }

    /// Returns a kubeconfig with a new token.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_with(&self.token())
    }

    pub fn kubeconfig_with(&self, token: &str) -> String {
        self.kubeconfig_of(&json!({"token": token}))
    }

    /// Returns a kubeconfig with a certificate for an hour, which another server with the same CA also accepts.
    pub fn kubeconfig_by_certificate(&self) -> String {
        let hour = Duration::from_secs(3600);
        let pair = self.cluster.server().client_certificate(&self.user(), &[], hour);
        self.kubeconfig_of(&json!({
            "client-certificate-data": BASE64_STANDARD.encode(pair.0),
            "client-key-data": BASE64_STANDARD.encode(pair.1),
        }))
    }

    fn kubeconfig_of(&self, user: &Value) -> String {
        let address = self.relay.address.to_string();
        identity::kubeconfig(&address, &self.cluster.ca, user).to_string()
    }
}

impl Stage {
    /// Sets the stage: the local cluster is the target of one remote, "hub".
    pub fn pull(name: &str, setting: Setting) -> Self {
        let (hub, own) = match real() {
            true => (Cluster::real("hub"), Cluster::real("managed")),
            false => (Cluster::embedded("hub"), Cluster::embedded("managed")),
        };
        Self::between(own, vec![("hub", hub)], name, setting)
    }

    /// Sets the same stage with one source of one kind; also returns the source and its target.
    pub fn with_widget(name: &str) -> (Self, Place, Place) {
        let stage = Self::pull(name, Setting::safe(&[&WIDGETS]));
        let (source, target) = stage.pair(&WIDGETS, "one");
        source.create_number(1);
        (stage, source, target)
    }

    /// Sets the stage on the caller's servers.
    pub fn between(
        own: Arc<Cluster>,
        remotes: Vec<(&str, Arc<Cluster>)>,
        name: &str,
        setting: Setting,
    ) -> Self {
        let remotes: Vec<_> =
            remotes.into_iter().map(|(name, cluster)| Side::new(name, cluster)).collect();
        let own = Side::new("", own);
        let first = if setting.push { &own } else { &remotes[0] };
        let namespace = first.cluster.new_namespace(name);
        Self {
            own,
            remotes,
            namespace,
            setting,
            directory: TempDir::new().expect("a temporary directory"),
        }
    }

    pub fn remote(&self) -> &Side {
        &self.remotes[0]
    }

    /// Returns all clusters, the local one last.
    pub fn sides(&self) -> impl Iterator<Item = &Side> {
        self.remotes.iter().chain([&self.own])
    }

    // --- objects ---

    /// Returns the object that owns the spec, by its canonical name, in the stage's namespace.
    pub fn source(&self, kind: &'static Kind, name: &str) -> Place {
        self.source_in(0, kind, &self.namespace, name)
    }

    /// Returns both of them.
    pub fn pair(&self, kind: &'static Kind, name: &str) -> (Place, Place) {
        (self.source(kind, name), self.target(kind, name))
    }

    /// Returns its copy, which owns the status.
    pub fn target(&self, kind: &'static Kind, name: &str) -> Place {
        self.target_in(0, kind, &self.namespace, name)
    }

    /// Returns the source of the remote with this number, in any canonical namespace.
    pub fn source_in(
        &self,
        remote: usize,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> Place {
        let side = if self.setting.push { &self.own } else { &self.remotes[remote] };
        let suffix = self.setting.suffix.replace("{cluster}", &self.remotes[remote].name);
        Place::new(&side.cluster, kind, namespace, &format!("{name}{suffix}"))
    }

    pub fn target_in(
        &self,
        remote: usize,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> Place {
        let side = if self.setting.push { &self.remotes[remote] } else { &self.own };
        let suffix = self.setting.namespace_suffix.replace("{cluster}", &self.remotes[remote].name);
        Place::new(&side.cluster, kind, &format!("{namespace}{suffix}"), name)
    }

    /// Returns the Secret beside the source, by its canonical name.
    pub fn source_secret(&self, name: &str) -> Place {
        self.source(secrets(), name)
    }

    pub fn target_secret(&self, name: &str) -> Place {
        self.target(secrets(), name)
    }

    /// Returns the ConfigMap with the records of known clusters.
    pub fn known_clusters(&self) -> Place {
        Place::new(&self.own.cluster, &CONFIGS, &self.own.home, KNOWN_CLUSTERS)
    }

    /// Returns the source's namespace, as an object.
    pub fn source_namespace(&self) -> Place {
        let source = self.source(secrets(), "any");
        source.sibling(namespaces(), &source.namespace.clone().expect("a namespace"))
    }

    /// Returns the target's namespace, as an object.
    pub fn target_namespace(&self) -> Place {
        let target = self.target(secrets(), "any");
        target.sibling(namespaces(), &target.namespace.clone().expect("a namespace"))
    }

    /// Creates the target's namespace, with these annotations.
    pub fn create_target_namespace(&self, annotations: &Value) {
        self.target_namespace().create(&json!({"metadata": {"annotations": annotations}}));
    }

    /// Creates a Secret at the target that `owner` controls; its key is `data`, as in upstream's tests.
    pub fn create_target_secret(&self, name: &str, value: &str, owner: Option<&Place>) -> Value {
        let references = owner.map(|owner| {
            let uid = owner.uid();
            json!([{
                "apiVersion": owner.kind.resource.api_version(), "kind": owner.kind.resource.kind,
                "name": owner.name, "uid": uid, "controller": true,
            }])
        });
        let data = json!({"data": BASE64_STANDARD.encode(value)});
        self.target_secret(name)
            .create(&json!({"metadata": {"ownerReferences": references}, "data": data}))
    }

    // --- credentials ---

    /// Writes a file to the stage's directory, atomically.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        files::write(self.directory.path(), name, content)
    }

    /// Puts a kubeconfig into a Secret of the local cluster, like Cluster API.
    pub fn put_kubeconfig(&self, cluster: &str, kubeconfig: &str) {
        let name = format!("{cluster}-kubeconfig");
        let place = Place::new(&self.own.cluster, secrets(), &self.own.home, &name);
        let data = json!({"value": BASE64_STANDARD.encode(kubeconfig)});
        if place.get().is_some() {
            place.merge(&json!({"data": data}));
            return;
        }
        let labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        let kind = "cluster.x-k8s.io/secret";
        place.create(&json!({"metadata": {"labels": labels}, "type": kind, "data": data}));
    }

    pub fn delete_kubeconfig(&self, cluster: &str) {
        let name = format!("{cluster}-kubeconfig");
        self.own.cluster.delete(&SECRETS.object(&self.own.home, &name));
    }

    /// Revokes the program's rights on one cluster; the returned function restores them.
    pub fn take_rights(&self, side: &Side) -> impl FnOnce() + use<> {
        let (cluster, user) = (side.cluster.clone(), side.user());
        let (binding, body) = rights::binding(side);
        let forbidden = cluster
            .embedded
            .as_ref()
            .map(|server| server.faults().add(Rule::new(Action::Forbid).user(&user)));
        if forbidden.is_none() {
            binding.delete();
        }
        move || match (&cluster.embedded, forbidden) {
            (Some(server), Some(rule)) => server.faults().remove(rule),
            _ => {
                binding.create(&body);
            }
        }
    }
}
