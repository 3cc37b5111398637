//! What the program says of itself: `/healthz`, `/readyz`, `/metrics` and `/debug/state`. Names and
//! reasons, never the content of an object.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Instant, SystemTime},
};

use serde_json::{Value, json};
use shared::{endpoint::Report, lock::lock, metrics::Metrics};

use crate::{
    connection::{Identity, Phase},
    engine::Engine,
    leader::Leader,
    route::Route,
    site::Cluster,
};

/// Pairs that `/debug/state` shows of a remote: enough to see what is wrong, and bounded.
const MOST_PAIRS: usize = 1000;

/// Tells how the engine stands.
pub(crate) struct Status {
    pub(crate) engine: Arc<Engine>,
    pub(crate) leader: Arc<Leader>,
    pub(crate) started: SystemTime,
}

impl Report for Status {
    fn healthy(&self) -> Result<(), String> {
        Ok(())
    }

    /// A remote that is away, or a kind that is not served, is no reason to restart anything.
    fn ready(&self) -> Result<(), String> {
        if !self.leader.leads() {
            return self.leader.stands_by();
        }
        let own = &self.engine.own.cluster().connection;
        if own.is_connected() {
            return Ok(());
        }
        let error = own.health().error.unwrap_or_else(|| "not yet tried".into());
        Err(format!("the own cluster is not connected: {error}"))
    }

    fn remarks(&self) -> String {
        let obstacles = if self.leader.leads() { self.obstacles() } else { Vec::new() };
        let line = |(what, why): (String, Option<String>)| Some(format!("{what}: {}\n", why?));
        let trouble = self.engine.registry_trouble().map(|why| format!("registry: {why}\n"));
        obstacles.into_iter().filter_map(line).chain(trouble).collect()
    }

    fn metrics(&self) -> String {
        let mut metrics = Metrics::default();
        metrics.process("remote-sync", self.started);
        if self.engine.context.settings.election.is_some() {
            let leads = u8::from(self.leader.leads());
            metrics.gauge("leader_election_master_status", &[], leads);
        }
        self.cluster(self.engine.own.cluster(), &mut metrics);
        for route in self.engine.routes().iter() {
            self.cluster(self.engine.remote_of(route), &mut metrics);
            self.route(route, &mut metrics);
        }
        self.engine.context.counts.metrics(&mut metrics);
        metrics.to_string()
    }

    fn state(&self) -> Option<String> {
        let routes: BTreeMap<_, _> = self
            .engine
            .routes()
            .iter()
            .map(|route| (route.name.clone(), self.state_of(route)))
            .collect();
        let state = json!({
            "leads": self.leader.leads(),
            "own": connection(self.engine.own.cluster()),
            "registry": self.engine.registry_trouble(),
            "remotes": routes,
        });
        Some(format!("{state:#}\n"))
    }
}

impl Status {
    /// What stands in the way of each kind on each remote.
    fn obstacles(&self) -> Vec<(String, Option<String>)> {
        let mut obstacles = Vec::new();
        for route in self.engine.routes().iter() {
            for (kind, wanted) in self.engine.context.settings.resources.iter().enumerate() {
                obstacles.push((format!("{wanted} ({})", route.name), route.obstacle(kind)));
            }
        }
        obstacles
    }

    fn cluster(&self, cluster: &Cluster, metrics: &mut Metrics) {
        cluster.connection.metrics(metrics);
        let name = [("cluster", cluster.name())];
        let watches = cluster.watches.load(Relaxed);
        metrics.counter("remote_sync_watches_total", &name, watches);
        if let Ok(client) = cluster.connection.client() {
            metrics.client(cluster.name(), &client);
        }
    }

    fn route(&self, route: &Route, metrics: &mut Metrics) {
        let cluster = ("cluster", &*route.name);
        let notes = route.notes();
        for (kind, wanted) in self.engine.context.settings.resources.iter().enumerate() {
            let resource = wanted.to_string();
            let resource = ("resource", &*resource);
            let mut states: BTreeMap<&str, usize> = BTreeMap::new();
            for (_, note) in notes.iter().filter(|(pair, _)| pair.kind == kind) {
                *states.entry(note.state).or_default() += 1;
            }
            let sources = self.engine.sources(route, kind);
            let apart =
                notes.iter().filter(|(pair, _)| pair.kind == kind && route.has_source(pair));
            let apart = apart.count() + route.queue.unseen(kind);
            states.insert("insync", sources.saturating_sub(apart));
            for (state, count) in states {
                metrics.gauge("remote_sync_pairs", &[cluster, resource, ("state", state)], count);
            }
            let open = u8::from(route.obstacle(kind).is_none());
            metrics.gauge("remote_sync_resource_ready", &[cluster, resource], open);
        }
        let depth = route.queue.depth();
        for (state, count) in [
            ("queued", depth.queued),
            ("parked", depth.parked),
            ("running", depth.running),
            ("failing", depth.failing),
        ] {
            metrics.gauge("remote_sync_queue_depth", &[cluster, ("state", state)], count);
        }
        let held = lock(&route.orphans).waiting();
        metrics.gauge("remote_sync_deletions_held", &[cluster], held);
    }

    fn state_of(&self, route: &Route) -> Value {
        let resources = &self.engine.context.settings.resources;
        let apart: Vec<_> = route
            .notes()
            .into_iter()
            .take(MOST_PAIRS)
            .map(|(pair, note)| {
                json!({"resource": resources[pair.kind].to_string(), "pair": pair.key,
                    "state": note.state, "reason": note.reason})
            })
            .collect();
        let kinds: BTreeMap<_, _> = resources
            .iter()
            .enumerate()
            .map(|(kind, wanted)| {
                let known = json!({"sources": route.source.shelves[kind].table.len(),
                    "targets": route.target.shelves[kind].table.len(),
                    "waitsFor": route.obstacle(kind)});
                (wanted.to_string(), known)
            })
            .collect();
        let depth = route.queue.depth();
        json!({
            "connection": connection(self.engine.remote_of(route)),
            "resources": kinds,
            "queue": {"queued": depth.queued, "parked": depth.parked,
                "running": depth.running, "failing": depth.failing},
            "notInStep": apart,
        })
    }
}

fn connection(cluster: &Cluster) -> Value {
    let ago = |at: Option<Instant>| at.map(|at| at.elapsed().as_secs());
    let health = cluster.connection.health();
    let phase = match health.phase {
        Phase::Waiting => "Waiting",
        Phase::Connected => "Connected",
        Phase::IdentityChanged => "IdentityChanged",
        Phase::Disconnected => "Disconnected",
    };
    let identity = match health.identity {
        Identity::Known(uid) => json!({"uid": uid}),
        Identity::Unknown(why) => json!({"unknown": why}),
        Identity::Changed { was, now } => json!({"was": was, "now": now}),
    };
    json!({
        "state": phase,
        "seconds": health.since.elapsed().as_secs(),
        "connections": health.connections,
        "failures": health.failures,
        "secondsSince": {
            "success": ago(health.last_success),
            "probe": ago(health.last_probe),
            "connectFailure": ago(health.last_connect_failure),
        },
        "error": health.error,
        "identity": identity,
    })
}
