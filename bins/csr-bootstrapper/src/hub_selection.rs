//! Selection of one hub among several (ocm `pkg/registration/spoke/bootstrapkubeconfigs.go`): the pure part says when
//! another one is due, and in which order they are asked; `check` asks one.

mod check;

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff, controller, error::Error, log_line::seconds, log_object, reflector::Store,
    stop::Stop,
};
use log::Level;

use self::check::check;
use crate::{
    agent::Agent,
    certificate::validate::{of_secret, validate},
    identity::AgentNames,
    managedcluster::accepts_client,
};

/// The longest wait between two selections without a result.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Sources of bootstrap kubeconfigs have this long at the start; those that cannot be read by then come later.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(10);
/// A hub that stops accepting the cluster is left after this: it may be a mistake.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// A hub that has just signed the certificate has this long to accept the cluster and to take its first heartbeat:
/// people approve the request first.
const ACCEPTANCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of the selected hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HubState {
    /// There is none; a source of a bootstrap kubeconfig may be `unread`.
    NotSelected {
        unread: bool,
    },
    /// No session uses it.
    Joining,
    /// It has taken no heartbeat of its session yet, and may not accept the cluster.
    Joined {
        denied: bool,
    },
    Works,
    /// It no longer accepts the cluster.
    Denied,
    /// Heartbeats fail, or it no longer has the ManagedCluster.
    Failing,
}

impl HubState {
    /// How long the state may last until another hub is selected; `None` for ever.
    fn limit(self, timeout: Duration) -> Option<Duration> {
        Some(match self {
            Self::NotSelected { unread: true } => SOURCES_TIMEOUT,
            Self::NotSelected { unread: false } => Duration::ZERO,
            Self::Joining | Self::Failing => timeout,
            Self::Joined { denied: true } => ACCEPTANCE_TIMEOUT,
            Self::Joined { denied: false } => timeout.max(ACCEPTANCE_TIMEOUT),
            Self::Denied => DENIAL_TIMEOUT,
            Self::Works => return None,
        })
    }
}

/// The state of the selected hub, and since when it lasts.
struct HubTimer {
    timeout: Duration,
    state: HubState,
    since: Instant,
}

impl HubTimer {
    /// Hubs whose heartbeats fail are left after `timeout`.
    fn new(timeout: Duration, now: Instant) -> Self {
        Self { timeout, state: HubState::NotSelected { unread: true }, since: now }
    }

    /// Records the state; returns when another hub is to be selected, if ever.
    fn due(&mut self, state: HubState, now: Instant) -> Option<Instant> {
        if self.state != state {
            (self.state, self.since) = (state, now);
        }
        Some(self.since + state.limit(self.timeout)?)
    }
}

/// The order in which other hubs than the selected one are asked, as indices of `servers`: from the one after it on.
fn others(servers: &[Option<String>], selected: Option<&str>) -> Vec<usize> {
    let is_selected = |server: &Option<String>| server.is_some() && server.as_deref() == selected;
    let start = servers.iter().position(is_selected).map_or(0, |selected| selected + 1);
    let order = (0..servers.len()).map(|offset| (start + offset) % servers.len());
    order.filter(|index| servers[*index].is_some() && !is_selected(&servers[*index])).collect()
}

/// Selects a hub, and another one when that has to be, until the end of the process. `pending` is the server of the
/// request that an earlier process left.
pub(crate) fn run(agent: &Agent, names: &AgentNames, pending: Option<&str>, timeout: Duration) {
    let now = Instant::now();
    let mut controller = HubController {
        agent,
        names,
        pending,
        timer: HubTimer::new(timeout, now),
        backoff: Backoff::new(MAX_BACKOFF),
        not_before: now,
        revision: 0,
    };
    controller::run(&agent.stop, || Some(controller.reconcile()));
}

struct HubController<'a> {
    agent: &'a Agent,
    names: &'a AgentNames,
    /// The server of the pending request, until a hub is selected.
    pending: Option<&'a str>,
    timer: HubTimer,
    backoff: Backoff,
    not_before: Instant,
    /// Changes of the bootstrap kubeconfigs so far.
    revision: u64,
}

impl HubController<'_> {
    /// Selects a hub if that is due; returns when to come again.
    fn reconcile(&mut self) -> Instant {
        let now = Instant::now();
        let revision = self.agent.bootstraps.iter().map(Store::revision).sum();
        if std::mem::replace(&mut self.revision, revision) != revision {
            self.backoff.succeeded();
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
                // The next outage is another one.
                if self.agent.selection_error().is_some() {
                    self.backoff.succeeded();
                    self.agent.update(|state| state.selection_error = None);
                }
                now + Stop::SLICE
            }
        }
    }

    fn observe(&self, selected: Option<&str>) -> HubState {
        let agent = self.agent;
        let Some(selected) = selected else {
            let unread = (0..agent.bootstraps.len()).any(|index| agent.source(index).is_none());
            return HubState::NotSelected { unread };
        };
        let session = agent.session().filter(|session| !session.stop.raised());
        let Some(session) = session.filter(|session| session.hub.url() == selected) else {
            return HubState::Joining;
        };
        let (cluster, heartbeat) = (session.managed_cluster(), agent.heartbeat());
        let denied = cluster.as_ref().is_some_and(|cluster| !accepts_client(cluster));
        if heartbeat.renewed.is_none_or(|at| at.instant < session.started) {
            HubState::Joined { denied }
        } else if denied {
            HubState::Denied
        } else if heartbeat.failures > 0 || cluster.is_none() {
            HubState::Failing
        } else {
            HubState::Works
        }
    }

    /// Selects the hub of the pending request or of the credential if none is selected, else the first other hub that
    /// would register the cluster. The hub that the cluster joins stays while it answers: it may wait for an approval.
    fn select(&mut self, state: HubState, selected: Option<&str>) {
        let agent = self.agent;
        let servers: Vec<_> =
            (0..agent.bootstraps.len()).map(|index| agent.server(index)).collect();
        if selected.is_none()
            && let Some(index) = self.hub_before(&servers)
        {
            return self.selected(index, "");
        }
        let joined = agent.selected_hub().filter(|_| state == HubState::Joining);
        let joined = joined.map(|(index, _)| index);
        let mut reasons = Vec::new();
        for index in joined.into_iter().chain(others(&servers, selected)) {
            let answer = match agent.source(index) {
                Some(Ok(bootstrap)) => check(agent, bootstrap.config.clone(), &self.names.cluster),
                _ => continue,
            };
            if agent.stop.raised() {
                return;
            }
            let reason = match answer {
                Ok(_) if Some(index) == joined => return self.settled(),
                Ok(true) => return self.selected(index, &self.why(state, selected)),
                Ok(false) => "the hub does not accept the cluster".to_owned(),
                Err(reason) => reason,
            };
            reasons.push(format!("{}: {reason}", agent.settings.bootstraps[index]));
        }
        let sources = agent.settings.bootstraps.iter().enumerate();
        reasons.extend(sources.filter_map(|(index, source)| {
            Some(format!("{source}: {}", agent.source(index)?.err()?))
        }));
        self.none_selected(reasons.join("; "));
    }

    /// The hub that an earlier process joined or used. Only the timeout decides about that: it may be restarting.
    fn hub_before(&self, servers: &[Option<String>]) -> Option<usize> {
        let index = |server: &str| servers.iter().position(|it| it.as_deref() == Some(server));
        self.pending.and_then(index).or_else(|| {
            let secret = self.agent.credential_secret();
            let (_, validation) = of_secret(secret.as_deref(), |data| {
                validate(data, None, self.names, self.agent.clocks())
            });
            index(validation.usable()?.hub.url())
        })
    }

    /// Why the hub `before` is left, at the end of a sentence.
    fn why(&self, state: HubState, before: Option<&str>) -> String {
        let (Some(before), seconds) = (before, self.timer.timeout.as_secs()) else {
            return String::new();
        };
        match state {
            HubState::Denied | HubState::Joined { denied: true } => {
                format!(": hub {before} does not accept the cluster")
            }
            HubState::Joining => format!(": hub {before} issued no certificate for {seconds} s"),
            _ => format!(": hub {before} took no heartbeat for {seconds} s"),
        }
    }

    fn selected(&mut self, index: usize, why: &str) {
        let Some(server) = self.agent.server(index) else { return };
        let source = &self.agent.settings.bootstraps[index];
        let message = format!("{source} is selected, for hub {server}{why}");
        self.agent.update(|state| state.selected_hub = Some((index, server)));
        self.pending = None;
        self.settled();
        self.agent.record_event("BootstrapSelected", false, &message);
    }

    /// The selected hub has its time from now on.
    fn settled(&mut self) {
        self.timer.since = Instant::now();
        self.backoff.succeeded();
        self.agent.update(|state| state.selection_error = None);
    }

    /// Reports once that no hub will do, and puts the next selection off, longer each time.
    fn none_selected(&mut self, error: String) {
        let (now, none) = (Instant::now(), Error::Unreachable(String::new()));
        let wait = self.backoff.failed(&none, now, fastrand::f64()).wait;
        self.not_before = now + wait;
        if self.agent.read(|state| state.selection_error.as_ref() != Some(&error)) {
            let retry_in = seconds(wait);
            log_object!(Level::Warn, self.agent.credential(), error = error, retry_in = retry_in;
                "no hub can be selected"
            );
            self.agent.update(|state| state.selection_error = Some(error));
        }
    }
}

#[cfg(test)]
mod tests;
