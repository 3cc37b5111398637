//! Loop that probes the spoke and reports to the hub: the ManagedCluster's status, and the client configs
//! in its spec. In the steady state nothing is written.

use std::time::{Duration, Instant, SystemTime};

use apiclient::{
    error::{Error, Result},
    log_object,
    resource::Target,
    stop::Stop,
};
use log::Level;
use serde_json::{Map, Value};

use super::{
    conditions::{self, AVAILABLE, JOINED, SpokeStatus, accepted, clocks_differ},
    event,
    health::{ApiServerHealth, Probes},
    spec::{self, MANAGED_CLUSTERS},
};
use crate::{
    agent::Agent,
    claim,
    conditions::has,
    settings::Settings,
    state::{HubSession, SharedState},
    status_writer::{StatusWriter, patch_status},
};

/// After a conflict the watch has this long to bring the write in between.
const ECHO: Duration = Duration::from_secs(1);
/// A hub may grant nothing before it accepts the cluster, and the watch brings the acceptance.
const NO_RIGHT_YET: Duration = Duration::from_secs(600);

/// Probes the spoke and reports to the hub, until the end of the process.
pub(crate) fn run(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        let mut status_loop = StatusLoop::new(agent, &session);
        let cluster = |state: &SharedState| state.managed_cluster().cloned();
        agent.run_session(&session, cluster, |cluster| status_loop.reconcile(cluster));
    }
}

/// The state of one session.
struct StatusLoop<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    probes: Probes,
    /// The last probe was reported: if the hub has another opinion since, the next probe decides.
    reported: bool,
    accepted: bool,
    differed: bool,
    /// resourceVersion of the watch's last event.
    watched_version: Value,
    latest: Latest,
    writer: StatusWriter<Part>,
    /// Custom claims beyond the most that are reported.
    claims_left_out: usize,
}

/// The ManagedCluster that the next write is based on.
enum Latest {
    /// The watch's last event.
    Watched,
    /// The answer to a later request.
    Answered(Value),
    /// Newer than the watch's last event; until then the watch may bring it.
    Elsewhere(Instant),
}

/// A write.
enum Write {
    /// Fields of the status.
    Status(Map<String, Value>),
    /// Fields of the status, with what the nodes have.
    Capacity(Map<String, Value>),
    /// A replacement of the whole.
    Spec(Value),
}

impl<'a> StatusLoop<'a> {
    fn new(agent: &'a Agent, session: &'a HubSession) -> Self {
        Self {
            agent,
            session,
            probes: Probes::default(),
            reported: false,
            accepted: false,
            differed: false,
            watched_version: Value::Null,
            latest: Latest::Watched,
            writer: StatusWriter::default(),
            claims_left_out: 0,
        }
    }

    /// Performs what is due, with at most one write; returns when to come again if nothing changes.
    fn reconcile(&mut self, watched: Value) -> Instant {
        let cluster = match self.latest(watched) {
            Ok(cluster) => cluster,
            Err(until) => return until,
        };
        self.record_hub_view(&cluster);
        let mut until = self.probe(&cluster);
        let now = Instant::now();
        let writes = [self.status_of(&cluster), self.capacity_of(&cluster), self.spec_of(&cluster)];
        for write in writes.into_iter().flatten() {
            let not_before = self.writer.pace(&write.part()).not_before;
            if not_before <= now {
                self.write(&cluster, &write);
                return now;
            }
            until = until.min(not_before);
        }
        until
    }

    /// The newest known ManagedCluster, or when to come again for it.
    fn latest(&mut self, watched: Value) -> std::result::Result<Value, Instant> {
        let version = &watched["metadata"]["resourceVersion"];
        if self.watched_version != *version {
            (self.watched_version, self.latest) = (version.clone(), Latest::Watched);
        }
        let now = Instant::now();
        match &self.latest {
            Latest::Watched => return Ok(watched),
            Latest::Answered(cluster) => return Ok(cluster.clone()),
            Latest::Elsewhere(until) if now < *until => return Err(*until),
            Latest::Elsewhere(_) => {}
        }
        let target = target_of(&watched);
        match self.session.client.get(&target) {
            Ok(cluster) => {
                self.latest = Latest::Answered(cluster.clone());
                Ok(cluster)
            }
            Err(error) => {
                self.failed(&target, Part::Status, &error);
                let not_before = self.writer.pace(&Part::Status).not_before;
                self.latest = Latest::Elsewhere(not_before);
                Err(not_before)
            }
        }
    }

    /// Records the hub's view of the cluster.
    fn record_hub_view(&mut self, cluster: &Value) {
        let accepted = accepted(cluster);
        if std::mem::replace(&mut self.accepted, accepted) != accepted {
            // Other rights: waits of the old ones end.
            self.reported = false;
            self.writer.reset();
        }
        let (differ, target) = (clocks_differ(cluster), target_of(cluster));
        match (std::mem::replace(&mut self.differed, differ), differ) {
            (false, true) => log_object!(
                Level::Warn, target;
                "the hub finds that the clocks differ: the spoke's health is not reported"
            ),
            (true, false) => {
                log_object!(Level::Info, target; "the hub finds that the clocks agree again");
            }
            _ => {}
        }
    }

    /// Probes the spoke if that is due and the hub accepts the cluster; returns the time of the next probe.
    fn probe(&mut self, cluster: &Value) -> Instant {
        let (period, now) = (self.agent.settings.healthcheck_period, Instant::now());
        if !self.accepted {
            return now + Stop::SLICE;
        }
        // The hub has missed this cluster for a while.
        let urgent = has(cluster, AVAILABLE, "Unknown");
        if self.probes.due(period, urgent, now) <= now {
            self.probes.probe(self.agent.spoke(), period);
            self.reported = false;
        }
        self.probes.due(period, urgent, now)
    }

    fn status_of(&mut self, cluster: &Value) -> Option<Write> {
        let is_well = *self.probes.health() == ApiServerHealth::Ok;
        let claims = if is_well { self.claims() } else { None };
        let health = if self.reported { &ApiServerHealth::Unknown } else { self.probes.health() };
        let (version, now) = (self.probes.version(), SystemTime::now());
        let status = self.agent.read(|state| {
            let (claims, namespaces) = (claims.as_deref(), &state.applied_namespaces);
            let spoke = SpokeStatus { health, version, claims, namespaces };
            conditions::differences(cluster, spoke, state.rotated.as_ref(), now)
        });
        self.writer.due(&Part::Status, !status.is_empty())?;
        Some(Write::Status(status))
    }

    /// The claims that the hub is told, if they are known.
    fn claims(&mut self) -> Option<Vec<Value>> {
        let Settings { claim_kinds, claim_rules, .. } = &self.agent.settings;
        let stores = claim_kinds.iter().map(|kind| self.agent.claims(*kind));
        let (claims, left_out) = claim_rules.exposed(&claim::together(stores)?);
        if std::mem::replace(&mut self.claims_left_out, left_out) < left_out {
            let event = "CustomClusterClaimsTruncated";
            log::warn!(event = event, count = left_out; "claims are not reported, see -max-custom-cluster-claims");
        }
        Some(claims)
    }

    /// What the nodes have, if the hub has something else.
    fn capacity_of(&mut self, cluster: &Value) -> Option<Write> {
        let is_well =
            self.accepted && !self.differed && *self.probes.health() == ApiServerHealth::Ok;
        let status = self.agent.read(|state| {
            let capacity = state.capacity.as_ref().filter(|_| is_well)?;
            Some(capacity.differences(&cluster["status"]))
        });
        let status = status.unwrap_or_default();
        self.writer.due(&Part::Capacity, !status.is_empty())?;
        Some(Write::Capacity(status))
    }

    /// The change of the spec; this agent has the right to it once it is accepted.
    fn spec_of(&mut self, cluster: &Value) -> Option<Write> {
        let wanted = spec::wanted_by(self.agent, cluster).filter(|_| self.accepted);
        self.writer.due(&Part::Spec, wanted.is_some())?;
        wanted.map(Write::Spec)
    }

    fn write(&mut self, before: &Value, write: &Write) {
        let (client, target) = (&self.session.client, target_of(before));
        let answer: Result<Value> = match write {
            Write::Status(status) | Write::Capacity(status) => {
                patch_status(client, &target, before, status)
            }
            Write::Spec(cluster) => client.replace(&target, cluster),
        };
        match answer {
            Ok(after) => {
                self.reported |= write.part() == Part::Status;
                self.wrote(&target, write.part());
                if has(&after, JOINED, "True") && !has(before, JOINED, "True") {
                    log_object!(Level::Info, target; "the cluster has joined the hub");
                }
                event::write(client, &self.session.names.agent, before, &after);
                self.latest = Latest::Answered(after);
            }
            Err(error) => self.failed(&target, write.part(), &error),
        }
    }

    fn wrote(&mut self, target: &Target<'_>, part: Part) {
        let failures = self.writer.wrote(&part);
        let level = if failures == 0 { Level::Debug } else { Level::Info };
        log_object!(level, target, failures = failures; "{} was written", part.name());
    }

    fn failed(&mut self, target: &Target<'_>, part: Part, error: &Error) {
        let (now, accepted, what) = (Instant::now(), self.accepted, part.name());
        match error {
            Error::Conflict(_) => {
                self.latest = Latest::Elsewhere(now + ECHO);
                log_object!(
                    Level::Debug, target, error:% = error;
                    "reading the ManagedCluster again"
                );
            }
            Error::Forbidden(_) if !accepted => {
                self.writer.pace(&part).not_before = now + NO_RIGHT_YET;
                log_object!(
                    Level::Debug, target, error:% = error;
                    "{what} cannot be written before the hub accepts the cluster"
                );
            }
            _ => {
                let should_log = self.writer.failed(&part, error);
                let level = if should_log { Level::Warn } else { Level::Debug };
                log_object!(level, target, error:% = error; "{what} cannot be written");
            }
        }
    }
}

impl Write {
    fn part(&self) -> Part {
        match self {
            Self::Status(_) => Part::Status,
            Self::Capacity(_) => Part::Capacity,
            Self::Spec(_) => Part::Spec,
        }
    }
}

fn target_of(cluster: &Value) -> Target<'_> {
    MANAGED_CLUSTERS.cluster_object(cluster["metadata"]["name"].as_str().unwrap_or_default())
}

/// The part of the ManagedCluster; each is written at its own pace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Status,
    /// Nodes that come and go must not keep the health waiting.
    Capacity,
    Spec,
}

impl Part {
    /// The part's name in a sentence.
    fn name(self) -> &'static str {
        match self {
            Self::Status => "the ManagedCluster's status",
            Self::Capacity => "the ManagedCluster's capacity",
            Self::Spec => "the ManagedCluster's client configs",
        }
    }
}
