//! Selection of one hub among several (ocm `pkg/registration/spoke/bootstrapkubeconfigs.go`): the pure part decides
//! when to select another hub, and in which order to ask the hubs.

use std::time::{Duration, Instant};

use apiclient::{
    controller,
    error::{Result, optional},
    log_object,
    reflector::Store,
    stop::Stop,
};
use kubeconfig::{Hub, config::ClusterConfig, secret};
use log::Level;

use crate::{
    agent::Agent,
    managedcluster::{MANAGED_CLUSTERS, accepts_client},
    state::hub_client,
};

/// The interval of selections without a result, up to doubled by jitter.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// How long the first selection waits for all sources of bootstrap kubeconfigs; it omits the ones not read by then.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a hub may deny the cluster before another one is selected: the denial may be a mistake.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// The least time that a hub gets to accept the cluster, once it has signed the certificate.
const ACCEPTANCE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HubState {
    /// No hub is selected, and a source of a bootstrap kubeconfig was not read yet.
    Unread,
    NotSelected,
    /// No session uses the selected hub.
    Joining,
    /// No heartbeat of the session has succeeded yet: an administrator may have to accept the cluster first.
    Joined,
    Works,
    /// The hub no longer accepts the cluster.
    Denied,
    /// Heartbeats fail, or the hub no longer has the ManagedCluster.
    Failing,
}

impl HubState {
    /// Returns how long the state may last before another hub is selected; `None` means forever.
    fn limit(self, timeout: Duration) -> Option<Duration> {
        Some(match self {
            Self::Unread => SOURCES_TIMEOUT,
            Self::NotSelected => Duration::ZERO,
            Self::Joining | Self::Failing => timeout,
            Self::Joined => timeout.max(ACCEPTANCE_TIMEOUT),
            Self::Denied => DENIAL_TIMEOUT,
            Self::Works => return None,
        })
    }
}

struct HubTimer {
    /// How long heartbeats may fail before another hub is selected.
    timeout: Duration,
    state: HubState,
    since: Instant,
}

impl HubTimer {
    /// Records the state; returns when to select another hub, if ever.
    fn due(&mut self, state: HubState, now: Instant) -> Option<Instant> {
        if self.state != state {
            (self.state, self.since) = (state, now);
        }
        Some(self.since + state.limit(self.timeout)?)
    }
}

/// Returns the order in which to ask all hubs but the selected one, as indices of `servers`: its successor is first.
fn others(servers: &[Option<String>], selected: Option<&str>) -> Vec<usize> {
    let is_selected = |server: &Option<String>| server.is_some() && server.as_deref() == selected;
    let start = servers.iter().position(is_selected).map_or(0, |selected| selected + 1);
    let order = (0..servers.len()).map(|offset| (start + offset) % servers.len());
    order.filter(|index| servers[*index].is_some() && !is_selected(&servers[*index])).collect()
}

/// Selects a hub, and the next hub when the selected one fails. `pending` is the server of an earlier process's
/// request.
pub(crate) fn run(agent: &Agent, cluster: &str, pending: Option<&str>, timeout: Duration) {
    let now = Instant::now();
    let mut controller = HubController {
        agent,
        cluster,
        pending,
        timer: HubTimer { timeout, state: HubState::Unread, since: now },
        not_before: now,
        revision: 0,
    };
    controller::run(&agent.stop, || Some(controller.reconcile()));
}

struct HubController<'a> {
    agent: &'a Agent,
    cluster: &'a str,
    /// The server of the pending request, until a hub is selected.
    pending: Option<&'a str>,
    timer: HubTimer,
    not_before: Instant,
    /// The number of changes of the bootstrap kubeconfigs so far.
    revision: u64,
}

impl HubController<'_> {
    fn reconcile(&mut self) -> Instant {
        let now = Instant::now();
        let revision = self.agent.bootstraps.iter().map(Store::revision).sum();
        if std::mem::replace(&mut self.revision, revision) != revision {
            self.not_before = now;
        }
        let selected = self.agent.selected_hub().map(|(_, server)| server);
        let state = self.observe(selected.as_deref());
        match self.timer.due(state, now).map(|due| due.max(self.not_before)) {
            Some(due) if due > now => due,
            Some(_) => {
                self.select(state, selected.as_deref());
                Instant::now()
            }
            None => {
                // The error belongs to an outage that is over.
                self.set_error(None);
                now + Stop::SLICE
            }
        }
    }

    fn observe(&self, selected: Option<&str>) -> HubState {
        let agent = self.agent;
        let Some(selected) = selected else {
            let is_unread = (0..agent.bootstraps.len()).any(|index| agent.source(index).is_none());
            return if is_unread { HubState::Unread } else { HubState::NotSelected };
        };
        let session = agent.session().filter(|session| !session.stop.raised());
        let Some(session) = session.filter(|session| session.hub.url() == selected) else {
            return HubState::Joining;
        };
        let (cluster, heartbeat) = (session.managed_cluster(), agent.heartbeat());
        if heartbeat.renewed.is_none_or(|at| at.instant < session.started) {
            return HubState::Joined;
        }
        match cluster {
            Some(cluster) if !accepts_client(&cluster) => HubState::Denied,
            Some(_) if heartbeat.failures == 0 => HubState::Works,
            _ => HubState::Failing,
        }
    }

    /// If no hub is selected, selects that of the pending request or credential; else, the first other hub that would
    /// register the cluster. A hub that the cluster is joining stays while it answers: an approval may take time.
    fn select(&mut self, state: HubState, selected: Option<&str>) {
        let agent = self.agent;
        let servers: Vec<_> =
            (0..agent.bootstraps.len()).map(|index| agent.server(index)).collect();
        if selected.is_none()
            && let Some(index) = self.hub_before(&servers)
        {
            return self.selected(index, None);
        }
        let joined = agent.selected_hub().filter(|_| state == HubState::Joining);
        let joined = joined.map(|(index, _)| index);
        let mut reasons = Vec::new();
        for index in joined.into_iter().chain(others(&servers, selected)) {
            let Some(Ok(bootstrap)) = agent.source(index) else { continue };
            let answer = accepts(agent, bootstrap.config.clone(), self.cluster);
            if agent.stop.raised() {
                return;
            }
            let reason = match answer {
                Ok(_) if Some(index) == joined => return self.settled(),
                Ok(true) => return self.selected(index, selected),
                Ok(false) => "the hub does not accept the cluster".to_owned(),
                Err(error) => error.to_string(),
            };
            reasons.push(format!("{}: {reason}", agent.settings.bootstraps[index]));
        }
        let sources = agent.settings.bootstraps.iter().enumerate();
        reasons.extend(sources.filter_map(|(index, source)| {
            Some(format!("{source}: {}", agent.source(index)?.err()?))
        }));
        self.not_before = Instant::now() + RETRY_INTERVAL.mul_f64(1.0 + fastrand::f64());
        self.set_error(Some(reasons.join("; ")));
    }

    /// Returns the hub that an earlier process joined or used. It is selected unasked: it may be restarting.
    fn hub_before(&self, servers: &[Option<String>]) -> Option<usize> {
        let index = |server: &str| servers.iter().position(|it| it.as_deref() == Some(server));
        self.pending.and_then(index).or_else(|| {
            let data = secret::data(&*self.agent.credential_secret()?).ok()?;
            index(Hub::of_secret("", &data).ok()?.url())
        })
    }

    fn selected(&mut self, index: usize, before: Option<&str>) {
        let Some(server) = self.agent.server(index) else { return };
        let source = &self.agent.settings.bootstraps[index];
        let mut message = format!("{source} is selected, for hub {server}");
        if let Some(before) = before {
            let HubTimer { timeout, state, .. } = &self.timer;
            let seconds = timeout.as_secs();
            message += &match state {
                HubState::Denied => format!(": hub {before} does not accept the cluster"),
                HubState::Joining => {
                    format!(": hub {before} issued no certificate for {seconds} s")
                }
                _ => format!(": hub {before} took no heartbeat for {seconds} s"),
            };
        }
        self.agent.update(|state| state.selected_hub = Some((index, server)));
        self.pending = None;
        self.settled();
        self.agent.record_event("BootstrapSelected", false, &message);
    }

    /// Restarts the timer of the selected hub, and clears the error.
    fn settled(&mut self) {
        self.timer.since = Instant::now();
        self.set_error(None);
    }

    fn set_error(&self, error: Option<String>) {
        let agent = self.agent;
        if agent.read(|state| state.selection_error == error) {
            return;
        }
        if let Some(error) = &error {
            log_object!(Level::Warn, agent.credential(), error = error; "no hub can be selected");
        }
        agent.update(|state| state.selection_error = error);
    }
}

/// Asks a hub with its bootstrap identity; returns whether it accepts the cluster or does not know it yet.
fn accepts(agent: &Agent, config: ClusterConfig, cluster: &str) -> Result<bool> {
    let client = hub_client("the hub", config, &agent.other_requests)?;
    let found = optional(client.get(&MANAGED_CLUSTERS.cluster_object(cluster)));
    client.close();
    Ok(found?.is_none_or(|cluster| accepts_client(&cluster)))
}

#[cfg(test)]
mod tests;
