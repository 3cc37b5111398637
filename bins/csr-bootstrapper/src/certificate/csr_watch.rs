//! The identities that ask the hub for certificates, and the watch of the CSR that was asked for.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use shared::{
    client::{Client, Reload, Timeouts},
    config::ClusterConfig,
    error::{Error, Result},
    lock::lock,
    runtime,
    stop::Stop,
    watch,
};

use super::{csr::CSRS, need::Requester};
use crate::{
    agent::{Agent, HUB_OBJECT, REQUEST_TIME},
    cached::CachedObject,
};

/// A watch gets this long to begin before the CSR is read in its stead.
const WATCH_BEGINS: Duration = Duration::from_secs(2);
/// Where no watch begins, because of rights or a proxy, the CSR is read this often.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// What is open on the hub for a certificate; nothing while none is needed.
#[derive(Default)]
pub(crate) struct CsrWatcher {
    client: Option<(Requester, Client)>,
    watched: Option<Watched>,
}

/// The watch of one CSR.
struct Watched {
    name: String,
    client: Client,
    stop: Stop,
    since: Instant,
    /// When it was read, where the watch shows nothing.
    looked: Option<Instant>,
    /// What was seen last, and how often the watch showed anything.
    seen: Arc<Mutex<(CachedObject, u64)>>,
}

impl CsrWatcher {
    /// The client of `asker`; for one who is not the agent itself it is made with `access`.
    pub(crate) fn client(
        &mut self,
        agent: &Agent,
        requester: Requester,
        access: Option<ClusterConfig>,
    ) -> Result<Client> {
        let missing = || Error::BadConfig("there is no identity to ask the hub with".into());
        if requester == Requester::Agent {
            self.drop_client(agent);
            return agent.session().map(|session| session.client.clone()).ok_or_else(missing);
        }
        let access = access.ok_or_else(missing)?;
        // With another access it may be another hub: nothing that was seen with the last one counts.
        let same =
            |(of, client): &&(Requester, Client)| *of == requester && client.access() == access;
        if let Some((_, client)) = self.client.as_ref().filter(same) {
            return Ok(client.clone());
        }
        self.drop_client(agent);
        let whose = match requester {
            Requester::Bootstrap => "the hub (as the bootstrap identity)",
            _ => "the hub (at its new address)",
        };
        let timing = Timeouts::with_request(REQUEST_TIME);
        let requests = agent.requests.requester.clone();
        let client = Client::counting(whose, access, Reload::Never, timing, requests)?;
        let client = client.limited_to(HUB_OBJECT);
        self.client = Some((requester, client.clone()));
        agent.update(|state| state.requester = Some(client.clone()));
        Ok(client)
    }

    /// Watches the CSR `name` by `client`; `true` if it did not already.
    pub(crate) fn watch(&mut self, agent: &Agent, client: &Client, name: &str) -> Result<bool> {
        let same = |w: &Watched| w.name == name && w.client.is(client);
        if self.watched.as_ref().is_some_and(same) {
            return Ok(false);
        }
        self.drop_watch();
        let watched = Watched {
            name: name.to_owned(),
            client: client.clone(),
            stop: agent.stop.child(),
            since: Instant::now(),
            looked: None,
            seen: Arc::default(),
        };
        let (name, client) = (watched.name.clone(), client.clone());
        let (stop, parent, seen) = (watched.stop.clone(), agent.stop.clone(), watched.seen.clone());
        let trouble = agent.errors.csr.clone();
        let follow = move || {
            watch::follow(&client, &CSRS.cluster_object(&name), &stop, &trouble, &mut |csr| {
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
        self.watched = Some(watched);
        Ok(true)
    }

    /// The CSR as it was seen last; `None` while the watch may still begin.
    pub(crate) fn csr(&self, now: Instant) -> Option<CachedObject> {
        let watched = self.watched.as_ref()?;
        let (seen, sightings) = lock(&watched.seen).clone();
        match watched.looked {
            _ if sightings > 0 => Some(seen),
            Some(at) if now < at + LOOK_AGAIN => Some(seen),
            None if now < watched.since + WATCH_BEGINS => None,
            _ => Some(CachedObject::Unknown),
        }
    }

    /// How often the watch showed anything: to be asked before a request, for [`Self::saw`].
    pub(crate) fn sightings(&self) -> u64 {
        self.watched.as_ref().map_or(0, |watched| lock(&watched.seen).1)
    }

    /// The CSR as an answer showed it, which the watch will confirm. If the watch showed anything since
    /// there were so many `sightings`, that is newer: a hub may approve and sign, and somebody delete,
    /// before the answer is here.
    pub(crate) fn saw(&mut self, csr: CachedObject, sightings: u64) {
        let Some(watched) = &mut self.watched else { return };
        watched.looked = Some(Instant::now());
        let mut seen = lock(&watched.seen);
        if seen.1 == sightings {
            seen.0 = csr;
        }
    }

    /// Nothing is needed of the hub any more.
    pub(crate) fn finish(&mut self, agent: &Agent) {
        self.drop_watch();
        self.drop_client(agent);
    }

    fn drop_watch(&mut self) {
        if let Some(watched) = self.watched.take() {
            watched.stop.raise();
        }
    }

    fn drop_client(&mut self, agent: &Agent) {
        if let Some((_, client)) = self.client.take() {
            agent.update(|state| state.requester = None);
            // The watch is this client's: it is not to complain.
            self.drop_watch();
            // A credential that has served is not tried again and again in the background.
            client.close();
        }
    }
}
