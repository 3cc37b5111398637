//! Loop that keeps one of several hubs selected.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff, controller, error::Error, log_line::seconds, log_object, reflector::Store,
    stop::Stop,
};
use log::Level;
use serde_json::Value;

use super::{
    HubAnswer, HubStatus, HubTimer,
    check::{check, check_credential},
    order,
};
use crate::{
    agent::Agent,
    certificate::validate::{self, Validation},
    hub::Hub,
    identity::AgentNames,
    managedcluster::{accepts_client, lease_period},
};

/// The longest wait between two selections without a result.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Selects a hub, and another one when that has to be, until the end of the process. `pending` is the server of the
/// request that an earlier process left.
pub(crate) fn run(agent: &Agent, names: &AgentNames, pending: Option<String>) {
    let (Some(timeout), now) = (agent.settings.hub_connection_timeout, Instant::now()) else {
        return;
    };
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
    pending: Option<String>,
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
        let hub = self.observe();
        match self.timer.due(&hub, now).map(|due| due.max(self.not_before)) {
            Some(due) if due > now => due,
            Some(_) => {
                self.select(&hub);
                Instant::now()
            }
            None => {
                // The next outage is another one.
                if self.agent.read(|state| state.selection_error.is_some()) {
                    self.backoff.succeeded();
                    self.agent.update(|state| state.selection_error = None);
                }
                now + Stop::SLICE
            }
        }
    }

    fn observe(&self) -> HubStatus {
        let (agent, heartbeat) = (self.agent, self.agent.heartbeat());
        let selected = agent.selected_hub().map(|(_, server)| server);
        let session = agent.session().filter(|session| !session.stop.raised());
        let session = session.filter(|session| selected.as_deref() == Some(session.hub.url()));
        let cluster = session.as_ref().and_then(|session| session.managed_cluster());
        HubStatus {
            selected,
            unread: (0..agent.bootstraps.len()).any(|index| agent.source(index).is_none()),
            connected: session.is_some(),
            denied: cluster.as_ref().is_some_and(|cluster| !accepts_client(cluster)),
            renewed: heartbeat.renewed.map(|at| at.instant),
            failing: heartbeat.failures > 0 || cluster.is_none(),
            period: lease_period(cluster.as_deref().unwrap_or(&Value::Null)),
        }
    }

    /// Asks the hubs one by one until the answer of one will do.
    fn select(&mut self, hub: &HubStatus) {
        let servers: Vec<_> =
            (0..self.agent.bootstraps.len()).map(|index| self.agent.server(index)).collect();
        let selected = hub.selected.as_deref();
        let joining = if hub.connected { None } else { selected.or(self.pending.as_deref()) };
        let joining = joining.map(str::to_owned);
        let credential = if selected.is_none() { self.credential() } else { None };
        let used = credential.as_ref().map(|(server, _)| server.as_str());
        let mut reasons = Vec::new();
        for index in order(&servers, selected, [joining.as_deref(), used]) {
            let server = &servers[index];
            let credential = credential.as_ref().filter(|(of, _)| server.as_ref() == Some(of));
            let validation = credential.map(|(_, validation)| validation);
            let answer = self.check(index, validation);
            if self.agent.stop.raised() {
                return;
            }
            let is_usable = validation.is_some_and(|it| it.usable().is_some());
            match server {
                Some(server) if answer.will_do(joining.as_ref() == Some(server), is_usable) => {
                    return self.selected(index, server, hub, &reasons);
                }
                _ => reasons.push(format!("{}: {answer}", self.agent.settings.bootstraps[index])),
            }
        }
        self.none_selected(self.reasons(&reasons));
    }

    /// The server of the credential, and what the credential is worth.
    fn credential(&self) -> Option<(String, Validation)> {
        let data = validate::content(self.agent.credential_secret().as_deref()).ok()?;
        let server = Hub::of_secret("", &data).ok()?.url().to_owned();
        Some((server, validate::validate(&data, None, self.names, self.agent.clocks())))
    }

    /// Asks with a valid credential first, if there is one for that hub: bootstrap tokens expire while it works.
    fn check(&self, index: usize, credential: Option<&Validation>) -> HubAnswer {
        let config = credential.and_then(|it| it.usable()?.config.clone());
        let answer = config.map(|it| check_credential(self.agent, it, &self.names.cluster));
        match (answer, self.agent.source(index)) {
            (Some(answer), _) if !matches!(answer, HubAnswer::Refused(_)) => answer,
            (_, Some(Ok(bootstrap))) => {
                check(self.agent, bootstrap.config.clone(), &self.names.cluster)
            }
            _ => HubAnswer::Refused("there is no valid kubeconfig any more".into()),
        }
    }

    /// Selects the hub at `server`, after others were not selected for these `reasons`.
    fn selected(&mut self, index: usize, server: &str, hub: &HubStatus, reasons: &[String]) {
        self.agent.update(|state| {
            state.selected_hub = Some((index, server.to_owned()));
            state.selection_error = None;
        });
        self.pending = None;
        self.timer.selected(Instant::now());
        let why = match &hub.selected {
            Some(before) if before == server => {
                // No other will do: it is not asked again at once.
                self.back_off();
                return;
            }
            None => String::new(),
            Some(before) if hub.denied => format!(": hub {before} does not accept the cluster"),
            Some(before) if hub.connected => {
                let seconds = self.timer.timeout.as_secs();
                format!(": hub {before} took no heartbeat for {seconds} s")
            }
            Some(_) => format!(": {}", self.reasons(reasons)),
        };
        self.backoff.succeeded();
        let source = &self.agent.settings.bootstraps[index];
        let message = format!("{source} is selected, for hub {server}{why}");
        self.agent.record_event("BootstrapSelected", false, &message);
    }

    /// Reports once that no hub will do.
    fn none_selected(&mut self, error: String) {
        let retry_in = seconds(self.back_off());
        if self.agent.read(|state| state.selection_error.as_ref() != Some(&error)) {
            log_object!(Level::Warn, self.agent.credential(), error = error, retry_in = retry_in;
                "no hub can be selected"
            );
            self.agent.update(|state| state.selection_error = Some(error));
        }
    }

    /// Puts the next selection off, longer each time.
    fn back_off(&mut self) -> Duration {
        let (now, none) = (Instant::now(), Error::Unreachable(String::new()));
        let wait = self.backoff.failed(&none, now, fastrand::f64()).wait;
        self.not_before = now + wait;
        wait
    }

    /// `reasons`, and those why other sources have no valid bootstrap kubeconfig.
    fn reasons(&self, reasons: &[String]) -> String {
        let sources = self.agent.settings.bootstraps.iter().enumerate();
        let invalid = sources.filter_map(|(index, source)| {
            Some(format!("{source}: {}", self.agent.source(index)?.err()?))
        });
        reasons.iter().cloned().chain(invalid).collect::<Vec<_>>().join("; ")
    }
}
