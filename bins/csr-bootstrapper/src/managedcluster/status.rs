//! Loop that probes the spoke and reports to the hub: the ManagedCluster's status, and the client configs
//! in its spec. In the steady state, it writes nothing.

use std::{
    collections::BTreeMap,
    mem,
    sync::Arc,
    time::{Instant, SystemTime},
};

use apiclient::{
    controller,
    error::{Error, Result},
    log_object,
    resource::Target,
    stop::Stop,
};
use log::Level;
use serde_json::{Map, Value, json};

use super::{
    MANAGED_CLUSTERS,
    health::{self, AVAILABLE, ApiServerHealth, Probes},
    wanted_by,
};
use crate::{
    agent::Agent,
    capacity::Capacity,
    claim,
    conditions::{Condition, accepted, changed, clocks_differ, patch_status},
    managed_namespace::ManagedNamespaces,
    pacing::Pace,
    state::HubSession,
};

const JOINED: &str = "ManagedClusterJoined";

/// Names of the written parts of the ManagedCluster, for sentences.
const STATUS: &str = "the ManagedCluster's status";
const CLIENT_CONFIGS: &str = "the ManagedCluster's client configs";

pub(crate) fn run(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        let namespaces = agent.settings.managed_namespaces;
        let mut status = StatusController {
            agent,
            session: &session,
            probes: Probes::default(),
            accepted: false,
            paces: BTreeMap::new(),
            namespaces: namespaces.then(|| ManagedNamespaces::new(agent, &session)),
            claims_left_out: 0,
            capacity: (0, None),
        };
        controller::run(&agent.stop, || (!session.stop.raised()).then(|| status.reconcile()));
    }
}

struct StatusController<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    probes: Probes,
    accepted: bool,
    paces: BTreeMap<&'static str, Pace>,
    namespaces: Option<ManagedNamespaces<'a>>,
    /// Number of custom claims beyond the limit.
    claims_left_out: usize,
    /// A revision of the nodes' store, and the resources at that revision.
    capacity: (u64, Option<Capacity>),
}

impl<'a> StatusController<'a> {
    fn reconcile(&mut self) -> Instant {
        let cluster = self.session.managed_cluster();
        let Some(cluster) = cluster.as_deref() else { return Instant::now() + Stop::SLICE };
        let (client, revision) = (&self.session.client, self.session.managed_cluster.revision());
        if mem::replace(&mut self.accepted, accepted(cluster)) != accepted(cluster) {
            // The permissions have changed: end the waits after earlier failures.
            self.paces.clear();
        }
        let mut until = self.probe();
        if let Some(namespaces) = &mut self.namespaces {
            until = until.min(namespaces.reconcile(cluster));
        }
        let (now, target, status) = (Instant::now(), self.target(), self.status(cluster));
        // The agent may write the spec once the cluster is accepted.
        let wanted = wanted_by(self.agent, cluster).filter(|_| self.accepted);
        for (part, is_needed) in [(STATUS, !status.is_empty()), (CLIENT_CONFIGS, wanted.is_some())]
        {
            match self.paces.entry(part).or_default().due(is_needed, now) {
                Some(due) if due <= now => {
                    let answer = match &wanted {
                        Some(wanted) if part == CLIENT_CONFIGS => client.replace(&target, wanted),
                        _ => patch_status(client, &target, cluster, &status),
                    };
                    self.written(part, cluster, (revision, answer));
                    return now;
                }
                Some(due) => until = until.min(due),
                None => {}
            }
        }
        until
    }

    fn target(&self) -> Target<'a> {
        MANAGED_CLUSTERS.cluster_object(&self.session.names.cluster)
    }

    fn probe(&mut self) -> Instant {
        let (period, now) = (self.agent.settings.healthcheck_period, Instant::now());
        if !self.accepted {
            return now + Stop::SLICE;
        }
        if self.probes.due(period, now) <= now {
            self.probes.probe(self.agent.spoke());
        }
        self.probes.due(period, now)
    }

    /// Returns the changes of the status. One write has them all, so that no part waits for the pace of another.
    fn status(&mut self, cluster: &Value) -> Map<String, Value> {
        let is_well = self.probes.health == ApiServerHealth::Ok;
        let claims = if is_well { self.claims() } else { None };
        self.add_up_nodes();
        let rotated = self.agent.read(|state| state.rotated.clone());
        let now = SystemTime::now();
        let spoke = SpokeStatus {
            health: &self.probes.health,
            version: self.probes.version.as_deref(),
            rotated: rotated.as_ref(),
            claims: claims.as_deref(),
            capacity: self.capacity.1.as_ref().filter(|_| is_well),
            namespaces: self.namespaces.as_ref().and_then(|it| it.status(cluster, now)),
        };
        differences(cluster, spoke, now)
    }

    fn claims(&mut self) -> Option<Vec<Value>> {
        let claims = claim::together(self.agent.claims.iter())?;
        let (claims, left_out) = self.agent.settings.claim_rules.exposed(&claims);
        if mem::replace(&mut self.claims_left_out, left_out) < left_out {
            let event = "CustomClusterClaimsTruncated";
            log::warn!(event = event, count = left_out; "claims are not reported, see -max-custom-cluster-claims");
        }
        Some(claims)
    }

    fn add_up_nodes(&mut self) {
        let nodes = &self.agent.nodes;
        let revision = nodes.revision();
        if self.capacity.0 != revision {
            let was_known = self.capacity.0 == 0 || self.capacity.1.is_some();
            self.capacity = (revision, Capacity::of(nodes));
            if was_known && self.capacity.1.is_none() {
                log::warn!(
                    "the cluster's capacity is not reported: a node cannot be read, or they are too many"
                );
            }
        }
    }

    /// Handles the answer to the write of `part`, which was sent at `revision`.
    fn written(
        &mut self,
        part: &'static str,
        before: &Value,
        (revision, answer): (u64, Result<Value>),
    ) {
        let HubSession { client, names, managed_cluster, .. } = self.session;
        let (target, now) = (self.target(), Instant::now());
        let pace = self.paces.entry(part).or_default();
        match answer {
            Ok(after) => {
                let failures = pace.wrote(now);
                let level = if failures == 0 { Level::Debug } else { Level::Info };
                log_object!(level, target, failures = failures; "{part} was written");
                health::write_event(client, before, &after);
                managed_cluster.put(revision, &names.cluster, Some(Arc::new(after)));
            }
            Err(error) => {
                // A hub may grant no permissions before it accepts the cluster.
                let is_early = !self.accepted && matches!(error, Error::Forbidden(_));
                let level = pace.failed(&error, now).level();
                let level = if is_early { Level::Debug } else { level };
                log_object!(level, target, error:% = error; "{part} cannot be written");
            }
        }
    }
}

#[derive(Clone)]
struct SpokeStatus<'a> {
    health: &'a ApiServerHealth,
    version: Option<&'a str>,
    rotated: Option<&'a Condition>,
    /// The claims to report, while they are known and the spoke is healthy.
    claims: Option<&'a [Value]>,
    /// The nodes' resources, while they are known and the spoke is healthy.
    capacity: Option<&'a Capacity>,
    /// The `managedNamespaces` to write, if the hub's differ.
    namespaces: Option<Value>,
}

/// Returns the changes to the status of `cluster`.
///
/// Before the hub accepts the cluster, and while it finds that the clocks differ, only `rotated` is reported (ocm
/// `pkg/registration/spoke/managedcluster/status_controller.go:160-165`, and
/// `pkg/registration/register/secret_controller.go`, which writes only `rotated`). The version of an unhealthy spoke
/// stays on the hub.
fn differences(cluster: &Value, spoke: SpokeStatus<'_>, now: SystemTime) -> Map<String, Value> {
    let known = &cluster["status"];
    let accepted = accepted(cluster) && !clocks_differ(cluster);
    let joined = || Condition::new("True", "ManagedClusterJoined", "Managed cluster joined".into());
    let wanted = [
        (JOINED, accepted.then(joined)),
        (AVAILABLE, spoke.health.condition().filter(|_| accepted)),
        ("ClusterCertificateRotated", spoke.rotated.cloned()),
    ];
    let wanted = wanted.iter().filter_map(|(kind, condition)| Some((*kind, condition.as_ref()?)));
    let mut status = Map::new();
    let conditions = changed(known, wanted, now);
    status.extend(conditions.map(|conditions| ("conditions".to_owned(), conditions)));
    if !accepted {
        return status;
    }
    let version = spoke.version.filter(|_| *spoke.health == ApiServerHealth::Ok);
    if let Some(version) = version.filter(|version| known["version"]["kubernetes"] != *version) {
        status.insert("version".to_owned(), json!({"kubernetes": version}));
    }
    // An absent list equals an empty one.
    let claims = known["clusterClaims"].as_array().map_or(&[][..], Vec::as_slice);
    if let Some(wanted) = spoke.claims.filter(|wanted| claims != *wanted) {
        status.insert("clusterClaims".to_owned(), json!(wanted));
    }
    status.extend(spoke.capacity.map(|it| it.differences(known)).unwrap_or_default());
    status.extend(spoke.namespaces.map(|it| ("managedNamespaces".to_owned(), it)));
    status
}

#[cfg(test)]
mod tests;
