//! Lease renewal: a loop per Lease, which renews it when it is due and allowed.

use std::{
    fmt, mem,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, RequestMetrics},
    controller,
    lease::{self, Now, Renewal},
    lock::lock,
    log_line::seconds,
    log_object,
    resource::LEASES,
    stop::Stop,
};
use log::Level;
use sidecar::renewal::{self, RenewalStatus};

use crate::settings::Settings;

pub(crate) struct LeaseRenewer {
    pub(crate) cluster: Arc<LeaseCluster>,
    pub(crate) period: Duration,
    namespace: String,
    name: String,
    status: Mutex<RenewalStatus>,
}

impl LeaseRenewer {
    pub(crate) fn new(cluster: Arc<LeaseCluster>, namespace: &str, settings: &Settings) -> Self {
        let (namespace, name) = (namespace.to_owned(), settings.lease_name.clone());
        Self { cluster, period: settings.period, namespace, name, status: Mutex::default() }
    }

    /// Renews the Lease whenever it is due and `allowed`, until `stop` is raised.
    pub(crate) fn run(&self, stop: &Stop, allowed: impl Fn() -> bool) {
        let own = lease::new(&self.namespace, &self.name);
        let mut renewal = Renewal::new(Some(own), self.period, Instant::now());
        let mut identity = None;
        controller::run(stop, || {
            let now = Now::read();
            lock(&self.status).beat = Some(now.instant);
            let client = self.cluster.client();
            let current = client.as_ref().map(Client::generation);
            if mem::replace(&mut identity, current) != current {
                renewal.credentials_changed(now.instant);
            }
            let Some(client) = client.filter(|_| allowed()) else {
                return Some(now.instant + Stop::SLICE);
            };
            if renewal.due(now) <= now.instant {
                self.renew(&mut renewal, &client, (now, &allowed));
            }
            Some(renewal.due(now))
        });
    }

    fn renew(&self, renewal: &mut Renewal, client: &Client, at: (Now, &dyn Fn() -> bool)) {
        let lease = LEASES.object(&self.namespace, &self.name);
        let (first, server) = (renewal.is_first(), client.name());
        match renewal::attempt(renewal, &self.status, client, &lease, at) {
            Ok(0) if first => {
                let period = seconds(self.period);
                log_object!(
                    Level::Info, lease, server = server, period = period;
                    "lease renewal started"
                );
            }
            result => renewal::log_result(server, &lease, &result),
        }
    }

    pub(crate) fn status(&self) -> RenewalStatus {
        lock(&self.status).clone()
    }
}

impl fmt::Display for LeaseRenewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease {}/{} on {}", self.namespace, self.name, self.cluster.name)
    }
}

/// The cluster of a Lease, with a client while there are credentials.
pub(crate) struct LeaseCluster {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// Requests and reloads of all clients, past and present.
    pub(crate) requests: RequestMetrics,
    /// `None` while there are no credentials.
    client: Mutex<Option<Client>>,
}

impl LeaseCluster {
    pub(crate) fn hub() -> Self {
        let requests = RequestMetrics::default();
        Self { name: "the hub", label: "hub", requests, client: Mutex::default() }
    }

    pub(crate) fn managed(client: &Client) -> Self {
        let (requests, client) = (client.requests().clone(), Mutex::new(Some(client.clone())));
        Self { name: "the managed cluster", label: "managed", requests, client }
    }

    pub(crate) fn client(&self) -> Option<Client> {
        lock(&self.client).clone()
    }

    /// Sets or drops the client; returns whether there was one.
    pub(crate) fn set_client(&self, client: Option<Client>) -> bool {
        mem::replace(&mut *lock(&self.client), client).is_some()
    }
}
