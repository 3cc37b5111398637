//! The in-process server: starts, injects faults, reports requests, and stops on drop.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::{
    ca::Ca,
    cluster::Cluster,
    controllers,
    faults::Faults,
    identity::Identities,
    listener::Listener,
    lock::lock,
    requests::{Counters, Request},
    resources::{Registry, Resource},
    signer::SignerOptions,
    store::Backup,
    tls,
    user::User,
};

/// Options for starting a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on.
    pub ip: IpAddr,
    /// The CA to reuse, as if the server had moved; None creates a new one.
    pub ca: Option<Ca>,
    /// Options for signing approved CSRs.
    pub signer: SignerOptions,
    /// Interval between bookmarks, for watches that allow them; one minute on a real server.
    pub bookmarks: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ip: Ipv4Addr::LOCALHOST.into(),
            ca: None,
            signer: SignerOptions::default(),
            bookmarks: Duration::from_secs(60),
        }
    }
}

/// A running server; dropping it stops the server and frees the port.
pub struct Server {
    pub(crate) cluster: Arc<Cluster>,
    listener: Arc<Listener>,
    controllers: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server with the usual four namespaces.
    pub fn start(options: Options) -> io::Result<Self> {
        let ca = options.ca.unwrap_or_else(|| Ca::new("kubernetes"));
        let config = tls::config(&ca)?;
        let cluster = Arc::new(Cluster {
            store: Default::default(),
            registry: Registry::new(),
            identities: Identities::new(&ca),
            ca,
            faults: Faults::default(),
            log: Default::default(),
            signer: Mutex::new(options.signer),
            bookmarks: options.bookmarks,
            rbac: AtomicBool::new(false),
        });
        let (_, events) = cluster.store.snapshot_and_watch("", "");
        let worker = cluster.clone();
        let controllers = thread::Builder::new()
            .name("controllers".into())
            .spawn(move || controllers::run(&worker, &events))?;
        let listener = Listener::new(cluster.clone(), config, (options.ip, 0).into())?;
        hook(&cluster.faults, &listener);
        let server = Self { cluster, listener, controllers: Some(controllers) };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            server.create_namespace(name);
        }
        Ok(server)
    }

    /// Returns the base URL, for example `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the CA that signs the server's and the clients' certificates.
    pub fn ca(&self) -> &Ca {
        &self.cluster.ca
    }

    /// Issues a client certificate; returns the PEM certificate and PKCS#8 key.
    pub fn client_certificate(
        &self,
        user: &str,
        groups: &[&str],
        valid_for: Duration,
    ) -> (String, String) {
        self.ca().client_certificate(user, groups, valid_for)
    }

    /// Issues a bearer token that is valid until it is revoked.
    pub fn token(&self, user: &str, groups: &[&str]) -> String {
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        let user = User::new(user, groups.iter().copied());
        self.cluster.identities.issue(user, century, None)
    }

    /// Revokes a token.
    pub fn revoke(&self, token: &str) {
        self.cluster.identities.revoke(token);
    }

    /// Returns a kubeconfig with inline credentials for `admin` in `system:masters`.
    pub fn kubeconfig(&self) -> String {
        let ten_years = Duration::from_secs(3650 * 24 * 3600);
        let (certificate, key) = self.client_certificate("admin", &["system:masters"], ten_years);
        let [authority, certificate, key] =
            [&*self.ca().certificate_pem, &*certificate, &*key].map(|pem| STANDARD.encode(pem));
        let cluster = json!({"server": self.url(), "certificate-authority-data": authority});
        let user = json!({"client-certificate-data": certificate, "client-key-data": key});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "dev",
            "clusters": [{"name": "dev", "cluster": cluster}],
            "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "admin"}}],
            "users": [{"name": "admin", "user": user}],
        });
        config.to_string()
    }

    /// Returns the faults of this server.
    pub fn faults(&self) -> &Faults {
        &self.cluster.faults
    }

    /// Replaces the signer's options for requests that it has not signed yet.
    pub fn set_signer(&self, options: SignerOptions) {
        *lock(&self.cluster.signer) = options;
    }

    /// Returns all requests since the start or the last `clear_requests`.
    pub fn requests(&self) -> Vec<Request> {
        self.cluster.log.all()
    }

    /// Returns the write requests among them in order, without dry runs.
    pub fn writes(&self) -> Vec<Request> {
        let mut requests = self.requests();
        let is_dry_run = |request: &Request| request.query.contains("dryRun=All");
        requests.retain(|request| {
            !matches!(&*request.verb, "get" | "list" | "watch") && !is_dry_run(request)
        });
        requests
    }

    /// Clears the request log; the counters keep their values.
    pub fn clear_requests(&self) {
        self.cluster.log.clear();
    }

    /// Drains the log up to `end`; later requests may not have been answered yet.
    pub fn take_requests(&self, end: Instant) -> Vec<Request> {
        self.cluster.log.take_until(end)
    }

    /// Returns the numbers of connections and handshakes since the start.
    pub fn counters(&self) -> Counters {
        self.cluster.log.counters()
    }

    /// Cuts all connections, like a restart; all state stays.
    pub fn restart(&self) {
        self.listener.cut();
    }

    /// Drops the history, so that every resource version that clients know is too old for a watch.
    pub fn compact(&self) {
        self.cluster.store.compact();
    }

    /// Takes a backup of all objects.
    pub fn backup(&self) -> Backup {
        self.cluster.store.backup()
    }

    /// Restores a backup, including resource versions, and cuts all connections. The served resources stay unchanged.
    pub fn restore(&self, backup: &Backup) {
        self.cluster.store.restore(backup);
        self.restart();
    }

    /// Enforces RBAC from now on: users outside `system:masters` have only the permissions of stored Roles,
    /// ClusterRoles and their bindings.
    pub fn enforce_rbac(&self) {
        self.cluster.rbac.store(true, Relaxed);
    }

    /// Returns whether RBAC is enforced.
    pub fn enforces_rbac(&self) -> bool {
        self.cluster.rbac.load(Relaxed)
    }

    /// Registers another resource without a CustomResourceDefinition.
    pub fn register(&self, resource: Resource) {
        self.cluster.registry.add(resource);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.cluster.faults.on_state(None);
        self.cluster.faults.gate().stop();
        self.listener.close();
        self.listener.cut();
        if let Some(controllers) = self.controllers.take() {
            let _ = controllers.join();
        }
    }
}

/// Forwards state changes to the port without keeping the listener alive.
fn hook(faults: &Faults, listener: &Arc<Listener>) {
    let listener = Arc::downgrade(listener);
    faults.on_state(Some(Box::new(move |state| {
        if let Some(listener) = listener.upgrade() {
            listener.apply(state).expect("the port is reserved for this server");
        }
    })));
}
