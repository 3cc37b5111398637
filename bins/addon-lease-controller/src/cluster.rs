//! Cluster of a Lease; it has a client while it has credentials.

use std::sync::Mutex;

use apiclient::{
    client::{Client, RequestMetrics},
    lock::lock,
};

pub(crate) struct LeaseCluster {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// Requests and reloads of all clients so far.
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
        std::mem::replace(&mut *lock(&self.client), client).is_some()
    }
}
