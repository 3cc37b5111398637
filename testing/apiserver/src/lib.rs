//! In-memory Kubernetes API server for tests and demos: the real one's answers over real TLS, and
//! faults on request. Synchronous to use; it runs on threads of its own until it is dropped.
//!
//! ```no_run
//! let server = dev_apiserver::Server::start(dev_apiserver::Options::default())?;
//! std::fs::write("kubeconfig", server.kubeconfig())?;
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

mod ca;
mod cluster;
mod connection;
mod control;
mod controllers;
mod delete;
mod der;
mod discovery;
mod effects;
mod faults;
mod form;
mod gate;
mod http;
mod identity;
mod kinds;
mod listener;
mod metadata;
mod objects;
mod patch;
mod read;
mod requests;
mod resources;
mod reviews;
mod rules;
mod selectors;
mod signer;
mod status;
mod store;
mod subjects;
mod target;
mod tls;
mod watch;
mod write;

pub use ca::{Ca, signing_request};
pub use faults::Faults;
pub use gate::State;
pub use identity::User;
pub use requests::{Counters, Request};
pub use resources::Resource;
pub use rules::{Action, Rule};
pub use signer::SignerOptions;
pub use store::Backup;
pub use subjects::{Bearer, Issued};

use cluster::Cluster;
use control::Control;
use listener::Listener;

/// How to start a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on.
    pub ip: IpAddr,
    /// Port there; 0 takes any free one.
    pub port: u16,
    /// Port of the control interface (plain HTTP on 127.0.0.1; 0 takes any); None leaves it out.
    pub control_port: Option<u16>,
    /// An authority to reuse, as if the server had moved; None makes a new one.
    pub ca: Option<Ca>,
    /// Whether to speak TLS; without it, only bearer tokens identify a client.
    pub tls: bool,
    /// How approved signing requests are signed.
    pub signer: SignerOptions,
    /// How often a watch that allows bookmarks gets one; the real server takes a minute.
    pub bookmarks: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ip: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            control_port: None,
            ca: None,
            tls: true,
            signer: SignerOptions::default(),
            bookmarks: Duration::from_secs(60),
        }
    }
}

/// A running server; dropping it stops it and frees the port.
pub struct Server {
    cluster: Arc<Cluster>,
    listener: Arc<Listener>,
    control: Option<Control>,
    controllers: Option<JoinHandle<()>>,
    tls: bool,
}

impl Server {
    /// Starts a server with the usual four namespaces.
    pub fn start(options: Options) -> io::Result<Self> {
        let ca = options.ca.unwrap_or_else(|| Ca::new("kubernetes"));
        let config = options.tls.then(|| tls::config(&ca)).transpose()?;
        let cluster = Arc::new(Cluster {
            store: Default::default(),
            registry: resources::Registry::new(),
            identities: identity::Identities::new(&ca),
            ca,
            faults: Faults::default(),
            log: Default::default(),
            signer: Mutex::new(options.signer),
            bookmarks: options.bookmarks,
        });
        let (_, events) = cluster.store.snapshot_and_watch("", "");
        let worker = cluster.clone();
        let controllers = thread::Builder::new()
            .name("controllers".into())
            .spawn(move || controllers::run(&worker, &events))?;
        let listener = Listener::new(cluster.clone(), config, (options.ip, options.port).into())?;
        hook(&cluster.faults, &listener);
        let mut server = Self {
            cluster,
            listener,
            control: None,
            controllers: Some(controllers),
            tls: options.tls,
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            server.create_namespace(name);
        }
        if let Some(port) = options.control_port {
            server.control = Some(Control::start(server.handle(), port)?);
        }
        Ok(server)
    }

    /// Base URL, for example `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        self.handle().url()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Where the control interface listens.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control.as_ref().map(Control::address)
    }

    /// The authority of the server's and its clients' certificates.
    pub fn ca(&self) -> &Ca {
        &self.cluster.ca
    }

    /// A client certificate: PEM certificate and PKCS#8 key.
    pub fn client_certificate(
        &self,
        user: &str,
        groups: &[&str],
        valid_for: Duration,
    ) -> (String, String) {
        self.ca().client_certificate(user, groups, valid_for)
    }

    /// A bearer token that is good until it is revoked.
    pub fn token(&self, user: &str, groups: &[&str]) -> String {
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        let user = User::new(user, groups.iter().copied());
        self.cluster.identities.issue(user, century)
    }

    /// Makes a token worthless.
    pub fn revoke(&self, token: &str) {
        self.cluster.identities.revoke(token);
    }

    /// A kubeconfig with everything inline for `admin` in `system:masters`.
    pub fn kubeconfig(&self) -> String {
        self.handle().kubeconfig()
    }

    /// The faults of this server.
    pub fn faults(&self) -> &Faults {
        &self.cluster.faults
    }

    /// Replaces the options of the signer for requests that it hasn't signed yet.
    pub fn set_signer(&self, options: SignerOptions) {
        *lock(&self.cluster.signer) = options;
    }

    /// All requests since the start or the last `clear_requests`.
    pub fn requests(&self) -> Vec<Request> {
        self.cluster.log.all()
    }

    /// The requests among them that were meant to change something, in their order.
    pub fn writes(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| !matches!(&*request.verb, "get" | "list" | "watch"));
        requests
    }

    /// Forgets the requests so far; the counters go on.
    pub fn clear_requests(&self) {
        self.cluster.log.clear();
    }

    /// Takes the requests until then out of the log: those that came later may have no answer yet.
    pub fn take_requests(&self, end: Instant) -> Vec<Request> {
        self.cluster.log.take_until(end)
    }

    /// Connections and handshakes since the start.
    pub fn counters(&self) -> Counters {
        self.cluster.log.counters()
    }

    /// Cuts all connections, as a restart does, and forgets nothing.
    pub fn restart(&self) {
        self.listener.cut();
    }

    /// Drops the history, so that every version known to clients is too old for a watch.
    pub fn compact(&self) {
        self.cluster.store.compact();
    }

    /// From now on lists of any version (`resourceVersion=0`) are as they would be now: those of a server
    /// whose watch cache lags behind.
    pub fn freeze_cache(&self) {
        self.faults().freeze_cache(self.cluster.store.version());
    }

    /// The objects as they are now.
    pub fn backup(&self) -> Backup {
        self.cluster.store.backup()
    }

    /// Goes back to a backup, versions included, and cuts all connections. Which resources are served
    /// stays as it is.
    pub fn restore(&self, backup: &Backup) {
        self.cluster.store.restore(backup);
        self.restart();
    }

    /// Serves another resource, without a CustomResourceDefinition.
    pub fn register(&self, resource: Resource) {
        self.cluster.registry.add(resource);
    }

    fn handle(&self) -> Handle {
        let (cluster, address) = (self.cluster.clone(), self.listener.address());
        Handle { cluster, address, tls: self.tls }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.control = None;
        self.cluster.faults.on_state(None);
        self.cluster.faults.gate().stop();
        self.listener.close();
        self.listener.cut();
        if let Some(controllers) = self.controllers.take() {
            let _ = controllers.join();
        }
    }
}

/// What the control interface shares with the server.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) cluster: Arc<Cluster>,
    address: SocketAddr,
    tls: bool,
}

impl Handle {
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    pub(crate) fn kubeconfig(&self) -> String {
        let ca = &self.cluster.ca;
        let ten_years = Duration::from_secs(3650 * 24 * 3600);
        let (certificate, key) = ca.client_certificate("admin", &["system:masters"], ten_years);
        let (authority, user) = match self.tls {
            true => (
                format!(
                    "\n    certificate-authority-data: {}",
                    STANDARD.encode(&ca.certificate_pem)
                ),
                format!(
                    "client-certificate-data: {}\n    client-key-data: {}",
                    STANDARD.encode(certificate),
                    STANDARD.encode(key)
                ),
            ),
            false => {
                let admin = User::new("admin", ["system:masters"]);
                let token = self.cluster.identities.issue(admin, ten_years);
                (String::new(), format!("token: {token}"))
            }
        };
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: dev\nclusters:\n- name: dev\n  \
             cluster:\n    server: {}{authority}\ncontexts:\n- name: dev\n  context:\n    \
             cluster: dev\n    user: admin\nusers:\n- name: admin\n  user:\n    {user}\n",
            self.url()
        )
    }
}

/// Lets changes of the state reach the port, without keeping the listener alive.
fn hook(faults: &Faults, listener: &Arc<Listener>) {
    let listener = Arc::downgrade(listener);
    faults.on_state(Some(Box::new(move |state| {
        if let Some(listener) = listener.upgrade() {
            listener.apply(state).expect("the port is reserved for this server");
        }
    })));
}

/// A lock that another thread's panic doesn't take away: what it guards is always whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time in the form of Kubernetes' `Time`.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
