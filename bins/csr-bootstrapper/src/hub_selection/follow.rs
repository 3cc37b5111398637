//! Loop that keeps one of several hubs selected.

use std::time::{Duration, Instant};

use apiclient::{backoff::Backoff, error::Error, log_line::seconds, log_object, stop::Stop};
use kubeconfig::secret::Data;
use log::Level;

use super::{
    HubObservation, HubSelection, HubVerdict, Occasion,
    check::{check, check_credential},
};
use crate::{
    agent::Agent,
    bootstrap::server_of,
    certificate::validate::{self, Validation},
    hub::Hub,
    identity::AgentNames,
    managedcluster::{ManagedClusterLease, accepts_client, lease_period},
};

/// The longest wait between two selections without a result.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Selects a hub, and another one when that has to be, until the end of the process.
pub(crate) fn run(agent: &Agent, names: &AgentNames, lease: &ManagedClusterLease) {
    let Some(timeout) = agent.settings.hub_connection_timeout else { return };
    let mut selector = Selector {
        agent,
        names,
        lease,
        timeout,
        selection: HubSelection::new(timeout, Instant::now()),
        backoff: Backoff::new(MAX_BACKOFF),
        changes: 0,
    };
    loop {
        let seen = agent.stop.wakes();
        let until = selector.turn();
        if agent.stop.wait_for_change(seen, until.min(Instant::now() + Stop::SLICE)) {
            return;
        }
    }
}

struct Selector<'a> {
    agent: &'a Agent,
    names: &'a AgentNames,
    lease: &'a ManagedClusterLease,
    timeout: Duration,
    selection: HubSelection,
    backoff: Backoff,
    /// The changes of the bootstrap kubeconfigs that were seen.
    changes: u64,
}

impl Selector<'_> {
    /// Selects if there is an occasion; returns when to come again.
    fn turn(&mut self) -> Instant {
        let seen = self.observe();
        let changes = self.agent.read(|state| state.hubs.changes);
        if std::mem::replace(&mut self.changes, changes) != changes {
            self.backoff.succeeded();
            self.selection.rest(Instant::now());
        }
        match self.selection.next(&seen, Instant::now()) {
            Err(until) => {
                if seen.connected && !seen.denied && !seen.failing && seen.renewed.is_some() {
                    self.recovered();
                }
                until
            }
            Ok(occasion) => {
                self.select(occasion, &seen);
                Instant::now()
            }
        }
    }

    /// All that counts.
    fn observe(&self) -> HubObservation {
        let (agent, status) = (self.agent, self.lease.status());
        let credential = self.credential();
        agent.read(|state| {
            let selected = state.hubs.selected().map(|(_, server)| server.to_owned());
            let session = state.session().filter(|session| !session.stop.raised());
            let session = session.filter(|it| selected.as_deref() == Some(server_of(&it.hub)));
            let connected = session.is_some();
            let cluster = session.and_then(|session| session.managed_cluster());
            HubObservation {
                servers: state.hubs.servers(),
                unread: state.hubs.has_unread(),
                connected,
                denied: cluster.as_ref().is_some_and(|cluster| !accepts_client(cluster)),
                period: cluster.map_or(Duration::ZERO, |cluster| lease_period(&cluster)),
                joined: state.hubs.joined.clone(),
                selected,
                credential,
                renewed: status.renewed.map(|at| at.instant),
                failing: status.failures > 0,
            }
        })
    }

    /// The server of the credential, and whether that is valid; it counts only while none is selected.
    fn credential(&self) -> Option<(String, bool)> {
        if self.agent.read(|state| state.hubs.selected().is_some()) {
            return None;
        }
        let hub = Hub::of_secret("", &self.data()?).ok()?;
        let valid = self.validated().is_some_and(|it| it.usable().is_some());
        Some((server_of(&hub).to_owned(), valid))
    }

    fn validated(&self) -> Option<Validation> {
        Some(validate::validate(&self.data()?, None, self.names, self.agent.clocks()))
    }

    /// The content of the credential's Secret.
    fn data(&self) -> Option<Data> {
        self.agent.read(|state| validate::content(&state.credential).ok())
    }

    fn select(&mut self, occasion: Occasion, seen: &HubObservation) {
        let round = self.selection.begin(occasion, seen);
        let (found, others) =
            round.select(&mut |index, with_credential| self.ask(index, with_credential));
        if self.agent.stop.raised() {
            return;
        }
        match found {
            Some(index) => self.adopt(index, (occasion, &others), seen),
            None => self.none(&others),
        }
    }

    /// Asks with the credential first, if there is one for that hub: bootstrap tokens expire while it works.
    fn ask(&self, index: usize, with_credential: bool) -> HubVerdict {
        if self.agent.stop.raised() {
            return HubVerdict::NoAnswer("the process ends".into());
        }
        let credential = self.validated().filter(|_| with_credential);
        let config = credential.and_then(|it| it.usable()?.config.clone());
        let verdict =
            config.map(|config| check_credential(self.agent, config, &self.names.cluster));
        if let Some(verdict) = verdict.filter(|it| !matches!(it, HubVerdict::Refused(_))) {
            return verdict;
        }
        match self.agent.read(|state| state.hubs.get(index).cloned()) {
            Some(bootstrap) => check(self.agent, bootstrap.config, &self.names.cluster),
            None => HubVerdict::Refused("there is no valid kubeconfig any more".into()),
        }
    }

    /// Selects the one at `index`, on this occasion and after these answers of others.
    fn adopt(
        &mut self,
        index: usize,
        (occasion, others): (Occasion, &[(usize, HubVerdict)]),
        seen: &HubObservation,
    ) {
        let now = Instant::now();
        let adopted = self.agent.update(|state| {
            let bootstrap = state.hubs.select(index, seen.servers[index].as_deref())?;
            let server = server_of(&bootstrap.hub).to_owned();
            (state.hubs.trouble, state.no_bootstrap) = (None, None);
            state.set_bootstrap(Some(bootstrap));
            Some(server)
        });
        let Some(server) = adopted else { return };
        let before = seen.selected.as_deref().filter(|before| *before != server);
        self.selection.selected(now);
        if seen.selected.as_ref() == Some(&server) {
            // Nothing is better: the same is not asked again at once.
            self.rest();
            return;
        }
        self.backoff.succeeded();
        let source = &self.agent.settings.bootstraps[index];
        let why = match (before, occasion) {
            (None, _) => String::new(),
            (Some(before), Occasion::NotAccepted) => {
                format!(": hub {before} does not accept the cluster")
            }
            (Some(before), Occasion::Timeout) => {
                let seconds = self.timeout.as_secs();
                format!(": hub {before} took no heartbeat for {seconds} s")
            }
            (Some(_), Occasion::Joining | Occasion::Unselected) => {
                format!(": {}", self.reasons(others))
            }
        };
        let message = format!("{source} is selected, for hub {server}{why}");
        self.agent.record_event("BootstrapSelected", false, &message);
    }

    /// The selected hub works again: the next outage is told anew.
    fn recovered(&mut self) {
        if self.agent.read(|state| state.hubs.trouble.is_some()) {
            self.backoff.succeeded();
            self.agent.change(|state| state.hubs.trouble = None);
        }
    }

    /// Reports why there is none, and rests.
    fn none(&mut self, others: &[(usize, HubVerdict)]) {
        let (trouble, wait) = (self.reasons(others), self.rest());
        let known = self.agent.read(|state| state.hubs.trouble.as_ref() == Some(&trouble));
        if !known {
            let retry_in = seconds(wait);
            log_object!(Level::Warn, self.agent.credential(), error = trouble, retry_in = retry_in;
                "no hub can be selected"
            );
            self.agent.change(|state| state.hubs.trouble = Some(trouble));
        }
    }

    /// Rests before the next selection, longer each time.
    fn rest(&mut self) -> Duration {
        let (now, none) = (Instant::now(), Error::Unreachable(String::new()));
        let wait = self.backoff.failed(&none, now, fastrand::f64()).wait;
        self.selection.rest(now + wait);
        wait
    }

    /// The reasons why these, and those without a valid kubeconfig, are not selected.
    fn reasons(&self, others: &[(usize, HubVerdict)]) -> String {
        let sources = &self.agent.settings.bootstraps;
        let mut reasons: Vec<_> = others
            .iter()
            .map(|(index, verdict)| {
                let why = match verdict {
                    HubVerdict::Refused(why) | HubVerdict::NoAnswer(why) => why,
                    HubVerdict::NotAccepted => "the hub does not accept the cluster",
                    HubVerdict::Valid => "the hub is valid",
                };
                format!("{}: {why}", sources[*index])
            })
            .collect();
        self.agent.read(|state| {
            reasons.extend(
                state.hubs.defects().map(|(index, why)| format!("{}: {why}", sources[index])),
            );
        });
        reasons.join("; ")
    }
}
