//! Loop that probes the spoke and reports to the hub: the ManagedCluster's status, and the client configs
//! in its spec. In the steady state nothing is written.

use std::{
    mem,
    sync::Arc,
    time::{Instant, SystemTime},
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
    agent::Agent, claim, conditions::has, managed_namespace::ManagedNamespaces, state::HubSession,
};

/// The parts of the ManagedCluster that are written, in a sentence.
const STATUS: &str = "the ManagedCluster's status";
const CLIENT_CONFIGS: &str = "the ManagedCluster's client configs";

/// Probes the spoke and reports to the hub, until the end of the process.
pub(crate) fn run(agent: &Arc<Agent>) {
    while let Some(session) = agent.next_session() {
        let namespaces = agent.settings.managed_namespaces;
        let mut controller = StatusController {
            agent,
            session: &session,
            probes: Probes::default(),
            reported: false,
            accepted: false,
            clocks_differ: false,
            writer: StatusWriter::default(),
            namespaces: namespaces.then(|| ManagedNamespaces::new(agent, &session)),
            claims_left_out: 0,
        };
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
    /// If they are managed.
    namespaces: Option<ManagedNamespaces>,
    /// Custom claims beyond the most that are reported.
    claims_left_out: usize,
}

impl StatusController<'_> {
    /// Performs what is due, with at most one write; returns when to come again if nothing changes.
    fn reconcile(&mut self, cluster: &Value) -> Instant {
        let (client, revision) = (&self.session.client, self.session.managed_cluster.revision());
        let target = target_of(cluster);
        self.observe(cluster, &target);
        let mut until = self.probe(cluster);
        if let Some(namespaces) = &mut self.namespaces {
            until = until.min(namespaces.reconcile(cluster));
        }
        let now = Instant::now();
        let status = self.status(cluster);
        if let Some(due) = self.writer.due(&STATUS, !status.is_empty()) {
            if due <= now {
                let answer = patch_status(client, &target, cluster, &status);
                self.reported |= answer.is_ok();
                self.written(STATUS, cluster, (revision, answer));
                return now;
            }
            until = until.min(due);
        }
        // This agent has the right to the spec once it is accepted.
        let wanted = spec::wanted_by(self.agent, cluster).filter(|_| self.accepted);
        let due = self.writer.due(&CLIENT_CONFIGS, wanted.is_some());
        if let (Some(wanted), Some(due)) = (wanted, due) {
            if due <= now {
                let answer = client.replace(&target, &wanted);
                self.written(CLIENT_CONFIGS, cluster, (revision, answer));
                return now;
            }
            until = until.min(due);
        }
        until
    }

    /// Records the hub's view of the cluster.
    fn observe(&mut self, cluster: &Value, target: &Target<'_>) {
        let (accepted, differ) = (accepted(cluster), clocks_differ(cluster));
        if mem::replace(&mut self.accepted, accepted) != accepted {
            // Other rights: waits of the old ones end.
            self.reported = false;
            self.writer.reset();
        }
        if mem::replace(&mut self.clocks_differ, differ) != differ {
            let (level, how) = match differ {
                true => (Level::Warn, "differ: the spoke's health is not reported"),
                false => (Level::Info, "agree again"),
            };
            log_object!(level, target; "the hub finds that the clocks {how}");
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
    fn status(&mut self, cluster: &Value) -> Map<String, Value> {
        let is_well = *self.probes.health() == ApiServerHealth::Ok;
        let claims = if is_well { self.claims() } else { None };
        let (rotated, capacity) =
            self.agent.read(|state| (state.rotated.clone(), state.capacity.clone()));
        let now = SystemTime::now();
        let spoke = SpokeStatus {
            health: if self.reported { &ApiServerHealth::Unknown } else { self.probes.health() },
            version: self.probes.version(),
            rotated: rotated.as_ref(),
            claims: claims.as_deref(),
            capacity: capacity.as_deref().filter(|_| is_well),
            namespaces: self.namespaces.as_ref().and_then(|it| it.status(cluster, now)),
        };
        conditions::differences(cluster, spoke, now)
    }

    /// The claims to report, if they are known.
    fn claims(&mut self) -> Option<Vec<Value>> {
        let claims = claim::together(self.agent.claims.values())?;
        let (claims, left_out) = self.agent.settings.claim_rules.exposed(&claims);
        if mem::replace(&mut self.claims_left_out, left_out) < left_out {
            let event = "CustomClusterClaimsTruncated";
            log::warn!(event = event, count = left_out; "claims are not reported, see -max-custom-cluster-claims");
        }
        Some(claims)
    }

    /// Takes over the answer to the write of `part`, which was sent at `revision`.
    fn written(
        &mut self,
        part: &'static str,
        before: &Value,
        (revision, answer): (u64, Result<Value>),
    ) {
        let (HubSession { client, names, managed_cluster, .. }, target) =
            (self.session, target_of(before));
        match answer {
            Ok(after) => {
                let failures = self.writer.wrote(&part);
                let level = if failures == 0 { Level::Debug } else { Level::Info };
                log_object!(level, target, failures = failures; "{part} was written");
                if has(&after, JOINED, "True") && !has(before, JOINED, "True") {
                    log_object!(Level::Info, target; "the cluster has joined the hub");
                }
                event::write(client, &names.agent, before, &after);
                managed_cluster.put(revision, &names.cluster, Some(Arc::new(after)));
            }
            Err(error) => {
                // A hub may grant nothing before it accepts the cluster.
                let is_early = !self.accepted && matches!(error, Error::Forbidden(_));
                let level = self.writer.failed(&part, &error);
                let level = if is_early { Level::Debug } else { level };
                log_object!(level, target, error:% = error; "{part} cannot be written");
            }
        }
    }
}

fn target_of(cluster: &Value) -> Target<'_> {
    MANAGED_CLUSTERS.cluster_object(cluster["metadata"]["name"].as_str().unwrap_or_default())
}
