//! Loop that probes the spoke and reports to the hub: the ManagedCluster's status, and the client configs
//! in its spec. In the steady state nothing is written.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    error::{Error, Result},
    log_object,
    resource::Target,
    status_writer::{StatusWriter, patch_status},
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
    agent::Agent, capacity::CapacityCache, claim, conditions::has,
    managed_namespace::ManagedNamespaces, state::HubSession,
};

/// A hub may grant nothing before it accepts the cluster, and the watch brings the acceptance.
const FORBIDDEN_INTERVAL: Duration = Duration::from_secs(600);

/// The parts of the ManagedCluster that are written, in a sentence.
const STATUS: &str = "the ManagedCluster's status";
const CLIENT_CONFIGS: &str = "the ManagedCluster's client configs";

/// Probes the spoke and reports to the hub, until the end of the process.
pub(crate) fn run(agent: &Arc<Agent>) {
    while let Some(session) = agent.next_session() {
        let mut controller = StatusController::new(agent, &session);
        agent.run_session(&session, |cluster| controller.reconcile(cluster));
    }
}

/// The state of one session.
struct StatusController<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    probes: Probes,
    /// The last probe was reported: if the hub has another opinion since, the next probe decides.
    reported: bool,
    accepted: bool,
    clocks_differ: bool,
    writer: StatusWriter<&'static str>,
    capacity: CapacityCache,
    /// If they are managed.
    namespaces: Option<ManagedNamespaces>,
    /// Custom claims beyond the most that are reported.
    claims_left_out: usize,
}

/// A change of the ManagedCluster.
enum Write {
    /// Fields of the status.
    Status(Map<String, Value>),
    /// A replacement of the whole.
    ClientConfigs(Value),
}

impl<'a> StatusController<'a> {
    fn new(agent: &'a Arc<Agent>, session: &'a Arc<HubSession>) -> Self {
        let namespaces = agent.settings.managed_namespaces;
        Self {
            agent,
            session,
            probes: Probes::default(),
            reported: false,
            accepted: false,
            clocks_differ: false,
            writer: StatusWriter::default(),
            capacity: CapacityCache::default(),
            namespaces: namespaces.then(|| ManagedNamespaces::start(agent, session)),
            claims_left_out: 0,
        }
    }

    /// Performs what is due, with at most one write; returns when to come again if nothing changes.
    fn reconcile(&mut self, cluster: &Value) -> Instant {
        self.observe(cluster);
        let mut until = self.probe(cluster);
        if let Some(namespaces) = &mut self.namespaces {
            until = until.min(namespaces.reconcile(self.agent, self.session, cluster));
        }
        let now = Instant::now();
        let writes = [self.status_of(cluster), self.client_configs_of(cluster)];
        for write in writes.into_iter().flatten() {
            let not_before = self.writer.pace(&write.part()).not_before;
            if not_before <= now {
                self.write(cluster, &write);
                return now;
            }
            until = until.min(not_before);
        }
        until
    }

    /// Records the hub's view of the cluster.
    fn observe(&mut self, cluster: &Value) {
        let accepted = accepted(cluster);
        if std::mem::replace(&mut self.accepted, accepted) != accepted {
            // Other rights: waits of the old ones end.
            self.reported = false;
            self.writer.reset();
        }
        let (differ, target) = (clocks_differ(cluster), target_of(cluster));
        match (std::mem::replace(&mut self.clocks_differ, differ), differ) {
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
            self.probes.probe(self.agent.spoke());
            self.reported = false;
        }
        self.probes.due(period, urgent, now)
    }

    /// The change of the status, which is written whole so that no part waits for another one's pace.
    fn status_of(&mut self, cluster: &Value) -> Option<Write> {
        let is_well = *self.probes.health() == ApiServerHealth::Ok;
        let claims = if is_well { self.claims() } else { None };
        let health = if self.reported { &ApiServerHealth::Unknown } else { self.probes.health() };
        let (version, now) = (self.probes.version(), SystemTime::now());
        let namespaces = self.namespaces.as_ref();
        let namespaces = namespaces.and_then(|it| it.status(self.session, cluster, now));
        let rotated = self.agent.read(|state| state.rotated.clone());
        let spoke = SpokeStatus {
            health,
            version,
            rotated: rotated.as_ref(),
            claims: claims.as_deref(),
            capacity: self.capacity.get(self.agent).filter(|_| is_well),
            namespaces,
        };
        let status = conditions::differences(cluster, spoke, now);
        self.writer.due(&STATUS, !status.is_empty())?;
        Some(Write::Status(status))
    }

    /// The claims to report, if they are known.
    fn claims(&mut self) -> Option<Vec<Value>> {
        let claims = claim::together(self.agent.claims.values())?;
        let (claims, left_out) = self.agent.settings.claim_rules.exposed(&claims);
        if std::mem::replace(&mut self.claims_left_out, left_out) < left_out {
            let event = "CustomClusterClaimsTruncated";
            log::warn!(event = event, count = left_out; "claims are not reported, see -max-custom-cluster-claims");
        }
        Some(claims)
    }

    /// The change of the spec; this agent has the right to it once it is accepted.
    fn client_configs_of(&mut self, cluster: &Value) -> Option<Write> {
        let wanted = spec::wanted_by(self.agent, cluster).filter(|_| self.accepted);
        self.writer.due(&CLIENT_CONFIGS, wanted.is_some())?;
        wanted.map(Write::ClientConfigs)
    }

    fn write(&mut self, before: &Value, write: &Write) {
        let HubSession { client, names, managed_cluster, .. } = self.session;
        let (target, revision) = (target_of(before), managed_cluster.revision());
        let answer: Result<Value> = match write {
            Write::Status(status) => patch_status(client, &target, before, status),
            Write::ClientConfigs(cluster) => client.replace(&target, cluster),
        };
        match answer {
            Ok(after) => {
                self.reported |= write.part() == STATUS;
                let failures = self.writer.wrote(&write.part());
                let level = if failures == 0 { Level::Debug } else { Level::Info };
                log_object!(level, target, failures = failures; "{} was written", write.part());
                if has(&after, JOINED, "True") && !has(before, JOINED, "True") {
                    log_object!(Level::Info, target; "the cluster has joined the hub");
                }
                event::write(client, &names.agent, before, &after);
                managed_cluster.put(revision, &names.cluster, Some(Arc::new(after)));
            }
            Err(error) => self.failed(&target, write.part(), &error),
        }
    }

    fn failed(&mut self, target: &Target<'_>, part: &'static str, error: &Error) {
        if matches!(error, Error::Forbidden(_)) && !self.accepted {
            self.writer.pace(&part).not_before = Instant::now() + FORBIDDEN_INTERVAL;
            log_object!(
                Level::Debug, target, error:% = error;
                "{part} cannot be written before the hub accepts the cluster"
            );
            return;
        }
        let level = self.writer.failed(&part, error);
        log_object!(level, target, error:% = error; "{part} cannot be written");
    }
}

impl Write {
    fn part(&self) -> &'static str {
        match self {
            Self::Status(_) => STATUS,
            Self::ClientConfigs(_) => CLIENT_CONFIGS,
        }
    }
}

fn target_of(cluster: &Value) -> Target<'_> {
    MANAGED_CLUSTERS.cluster_object(cluster["metadata"]["name"].as_str().unwrap_or_default())
}
