//! Requester's client, and the watch of the CSR that it posted.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, Reload, Timeouts},
    error::{Error, Result},
    json::Document,
    lock::lock,
    resource::Target,
    stop::Stop,
    watch::{self, Selection},
};
use kubeconfig::config::ClusterConfig;
use sidecar::runtime;

use super::{
    csr::{CLUSTER_LABEL, CSRS},
    csr_status::{MOST_PENDING, is_own_pending},
    need::Requester,
};
use crate::{
    agent::{Agent, HUB_OBJECT, PAGE},
    cached::CachedObject,
    identity::AgentNames,
};

/// A watch has this long to begin before the CSR is read instead.
const WATCH_BEGINS: Duration = Duration::from_secs(2);
/// The CSR is read this often while no watch begins, because of rights or a proxy.
const READ_AGAIN: Duration = Duration::from_secs(15);

/// The open connections for a certificate; none while no certificate is needed.
#[derive(Default)]
pub(crate) struct CsrWatcher {
    client: Option<(Requester, Client)>,
    watch: Option<CsrWatch>,
}

/// The watch of one CSR.
struct CsrWatch {
    name: String,
    requester: Requester,
    client: Client,
    stop: Stop,
    since: Instant,
    /// The time of the last read, while the watch shows nothing.
    read: Option<Instant>,
    /// The last state, and the number of events so far.
    seen: Arc<Mutex<(CachedObject, u64)>>,
}

/// The CSR as its watch shows it at one moment.
#[derive(Clone)]
pub(crate) struct WatchedCsr {
    pub(crate) name: String,
    pub(crate) requester: Requester,
    pub(crate) config: ClusterConfig,
    /// The last state of the CSR; `None` while the watch may still begin.
    pub(crate) seen: Option<CachedObject>,
}

impl WatchedCsr {
    /// Returns whether this is the watch of the CSR `name` by `requester`, whose client is made with `config`
    /// unless it is the session's.
    pub(crate) fn is(
        &self,
        requester: Requester,
        config: Option<&ClusterConfig>,
        name: &str,
    ) -> bool {
        let same = requester == Requester::Agent || config == Some(&self.config);
        self.requester == requester && self.name == name && same
    }
}

impl CsrWatcher {
    /// The client of `requester`, made with `config` unless the agent itself is the requester.
    pub(crate) fn client(
        &mut self,
        agent: &Agent,
        requester: Requester,
        config: Option<ClusterConfig>,
    ) -> Result<Client> {
        let missing = || Error::bad_config("there is no identity to use at the hub");
        if requester == Requester::Agent {
            self.drop_client(agent);
            return agent.session().map(|session| session.client.clone()).ok_or_else(missing);
        }
        let config = config.ok_or_else(missing)?;
        // Another config may lead to another hub: nothing observed with the last one counts.
        let same =
            |(of, client): &&(Requester, Client)| *of == requester && client.config() == config;
        if let Some((_, client)) = self.client.as_ref().filter(same) {
            return Ok(client.clone());
        }
        self.drop_client(agent);
        let whose = match requester {
            Requester::Bootstrap => "the hub (as the bootstrap identity)",
            _ => "the hub (at its new address)",
        };
        let timeouts = Timeouts::default();
        let requests = agent.requests.requester.clone();
        let client = Client::counting(whose, config, Reload::Never, timeouts, requests)?;
        let client = client.limited_to(HUB_OBJECT);
        self.client = Some((requester, client.clone()));
        agent.update(|state| state.requester = Some(client.clone()));
        Ok(client)
    }

    /// Watches the CSR `name`, and no other, with the `client` of `requester`.
    pub(crate) fn watch(
        &mut self,
        agent: &Agent,
        requester: Requester,
        client: &Client,
        name: &str,
    ) -> Result<()> {
        self.drop_watch();
        let watch = CsrWatch {
            name: name.to_owned(),
            requester,
            client: client.clone(),
            stop: agent.stop.child(),
            since: Instant::now(),
            read: None,
            seen: Arc::default(),
        };
        let (name, client) = (watch.name.clone(), client.clone());
        let (stop, parent, seen) = (watch.stop.clone(), agent.stop.clone(), watch.seen.clone());
        let last_error = agent.errors.csr.clone();
        let follow = move || {
            watch::follow(&client, &CSRS.cluster_object(&name), &stop, &last_error, &mut |csr| {
                let mut seen = lock(&seen);
                *seen = (csr.into(), seen.1 + 1);
                drop(seen);
                parent.wake();
                match stop.raised() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        };
        runtime::spawn("csr", follow)?;
        self.watch = Some(watch);
        Ok(())
    }

    /// The present state of the watch.
    pub(crate) fn watched(&self, now: Instant) -> Option<WatchedCsr> {
        let watch = self.watch.as_ref()?;
        let (seen, events) = lock(&watch.seen).clone();
        let seen = match watch.read {
            _ if events > 0 => Some(seen),
            Some(at) if now < at + READ_AGAIN => Some(seen),
            None if now < watch.since + WATCH_BEGINS => None,
            _ => Some(CachedObject::Unknown),
        };
        let (name, config) = (watch.name.clone(), watch.client.config());
        Some(WatchedCsr { name, requester: watch.requester, config, seen })
    }

    /// Returns whether a client or a watch is open.
    pub(crate) fn is_open(&self) -> bool {
        self.client.is_some() || self.watch.is_some()
    }

    /// The names of the pending requests for `names` on the hub, up to the limit.
    pub(crate) fn pending(client: &Client, names: &AgentNames, stop: &Stop) -> Result<Vec<String>> {
        let labels = format!("{CLUSTER_LABEL}={}", names.cluster);
        let target = Target { resource: &CSRS, namespace: None, name: None, subresource: None };
        let selection = Selection { target, labels: &labels, metadata_only: false, page: PAGE };
        let mut pending = Vec::new();
        watch::list(client, &selection, stop, &mut |csr| {
            if let Document::Whole(object) = &csr
                && is_own_pending(object, names)
            {
                pending.push(csr.name().to_owned());
            }
            match pending.len() < MOST_PENDING {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(pending)
    }

    /// The number of the watch's events so far; read it before a request, for [`Self::answered`].
    pub(crate) fn events(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| lock(&watch.seen).1)
    }

    /// Records the CSR of an answer, which the watch will confirm. If the watch has had more than `events`
    /// events, these are newer: a hub may approve and sign, and somebody may delete, before the answer is
    /// here.
    pub(crate) fn answered(&mut self, csr: CachedObject, events: u64) {
        let Some(watch) = &mut self.watch else { return };
        watch.read = Some(Instant::now());
        let mut seen = lock(&watch.seen);
        if seen.1 == events {
            seen.0 = csr;
        }
    }

    /// Closes everything: no certificate is needed any more.
    pub(crate) fn close(&mut self, agent: &Agent) {
        self.drop_watch();
        self.drop_client(agent);
    }

    fn drop_watch(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.stop.raise();
        }
    }

    fn drop_client(&mut self, agent: &Agent) {
        if let Some((_, client)) = self.client.take() {
            agent.update(|state| state.requester = None);
            // The watch uses this client: it must not complain.
            self.drop_watch();
            // A used credential is not retried in the background again and again.
            client.close();
        }
    }
}
