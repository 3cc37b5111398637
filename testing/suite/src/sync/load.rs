//! Many pairs at once, and the program's progress with them: for budgets and benchmarks, on embedded servers.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Side, Stage, WIDGETS};
use crate::{
    pause,
    sidecar::{Sidecar, free_port},
};

/// These make a widget some 2.4 KB of JSON, with the program's marks: an ordinary custom resource.
const RULES: usize = 30;
const TEXT: usize = 600;

/// The memory of a program.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// In KiB, like the next two.
    pub resident: u64,
    pub anonymous: u64,
    /// The peak since its start.
    pub peak: u64,
    pub threads: u64,
}

impl Room {
    pub fn of(sidecar: &Sidecar) -> Self {
        Self {
            resident: sidecar.memory("VmRSS"),
            anonymous: sidecar.memory("RssAnon"),
            peak: sidecar.memory("VmHWM"),
            threads: sidecar.memory("Threads"),
        }
    }
}

/// Returns the canonical name of the pair with this number.
pub fn nth(index: usize) -> String {
    format!("w{index:05}")
}

/// Returns a widget's spec with this number.
fn spec(number: u64) -> Value {
    let rules: Vec<_> = (0..RULES)
        .map(|index| json!({"host": format!("host-{index}.example.com"), "port": 8000 + index}))
        .collect();
    json!({"size": number, "rules": rules, "text": "x".repeat(TEXT)})
}

fn status(number: u64) -> Value {
    let conditions: Vec<_> = ["Ready", "Synced", "Healthy"]
        .map(|kind| {
            json!({
                "type": kind, "status": "True", "reason": "AsExpected", "message": "all is well",
                "lastTransitionTime": "2026-11-21T00:00:00Z",
            })
        })
        .into();
    json!({"ready": number, "conditions": conditions})
}

impl Side {
    /// Returns a kubeconfig that bypasses the relay.
    pub fn direct_kubeconfig(&self) -> String {
        let user = json!({"token": self.token()});
        crate::identity::kubeconfig(&self.cluster.address, &self.cluster.ca, &user).to_string()
    }
}

impl Stage {
    /// Starts the program as in a pod: with its defaults, without the relays, and quiet.
    pub fn start_deployed(&self, more: &[&str]) -> Sidecar {
        self.start_deployed_for(self.remotes.len(), more)
    }

    /// Starts it with only the first remotes.
    pub fn start_deployed_for(&self, remotes: usize, more: &[&str]) -> Sidecar {
        let port = free_port();
        let mut command = crate::sidecar::bare(&crate::sidecar::program("remote-sync"));
        let own = self.write("own.direct", &self.own.direct_kubeconfig());
        command.arg("-kubeconfig").arg(own).args(["-namespace", &self.own.home]);
        command.args(self.setting.arguments()).args(["-namespace-prefix", &self.namespace]);
        command.args(["-metrics-port", &port.to_string(), "-v", "0"]);
        for side in self.remotes.iter().take(remotes) {
            let file = self.write(&format!("{}.direct", side.name), &side.direct_kubeconfig());
            command.args(["-remote-kubeconfig", &format!("{}={}", side.name, file.display())]);
        }
        command.args(more);
        self.spawn(command, port)
    }

    /// Creates sources of a remote, without HTTP.
    pub fn put_sources(&self, remote: usize, which: Range<usize>) {
        for index in which {
            let source = self.source_in(remote, &WIDGETS, &self.namespace, &nth(index));
            source.cluster.server().put(json!({
                "apiVersion": WIDGETS.resource.api_version(), "kind": WIDGETS.resource.kind,
                "metadata": {"namespace": source.namespace, "name": source.name}, "spec": spec(1),
            }));
        }
    }

    /// Changes the specs of sources, like a user of that server.
    pub fn change_specs(&self, remote: usize, which: Range<usize>, number: u64) {
        for index in which {
            let source = self.source_in(remote, &WIDGETS, &self.namespace, &nth(index));
            source.alter_here(|object| object["spec"] = spec(number));
        }
    }

    /// Changes the statuses of targets, like their controller.
    pub fn change_statuses(&self, remote: usize, which: Range<usize>, number: u64) {
        for index in which {
            let target = self.target_in(remote, &WIDGETS, &self.namespace, &nth(index));
            target.alter_here(|object| object["status"] = status(number));
        }
    }

    /// Checks that these targets have that spec, and their sources that status.
    pub fn check_pairs(&self, remote: usize, which: Range<usize>, spec: u64, status: u64) {
        for index in which {
            let target = self.target_in(remote, &WIDGETS, &self.namespace, &nth(index)).here();
            assert_eq!(WIDGETS.number(&target), Some(spec), "the spec of {}", nth(index));
            let source = self.source_in(remote, &WIDGETS, &self.namespace, &nth(index)).here();
            assert_eq!(WIDGETS.healthy(&source), Some(status), "the status of {}", nth(index));
        }
    }

    /// Returns the number of the program's requests so far, and of the writes among them, without those for Leases and
    /// Events.
    pub fn counted(&self) -> (usize, usize) {
        let all: Vec<_> = self
            .sides()
            .flat_map(|side| {
                let user = side.user();
                let mut ours = side.cluster.server().requests();
                ours.retain(|it| it.user == user && !matches!(&*it.resource, "leases" | "events"));
                ours
            })
            .collect();
        let writes = all.iter().filter(|it| !matches!(&*it.verb, "get" | "list" | "watch"));
        (all.len(), writes.count())
    }

    pub fn forget_requests(&self) {
        self.sides().for_each(|side| side.cluster.server().clear_requests());
    }
}

impl super::Place {
    fn here(&self) -> Value {
        let (version, plural) = (self.kind.resource.api_version(), &self.kind.resource.plural);
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let object = self.cluster.server().get(&version, plural, namespace, &self.name);
        object.unwrap_or_else(|| panic!("no {}", self.target()))
    }

    fn alter_here(&self, change: impl FnOnce(&mut Value)) {
        let (version, plural) = (self.kind.resource.api_version(), &self.kind.resource.plural);
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let altered =
            self.cluster.server().alter(&version, plural, namespace, &self.name, |object| {
                change(object);
                true
            });
        assert!(altered, "no {}", self.target());
    }
}

/// Returns the samples of one family of /metrics: labels and value.
fn samples<'a>(metrics: &'a str, family: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    let lines =
        metrics.lines().filter_map(move |line| line.strip_prefix(family)?.strip_prefix('{'));
    lines.filter_map(|line| {
        let (labels, value) = line.rsplit_once(' ')?;
        Some((labels, value.parse().ok()?))
    })
}

/// Waits until the program has this number of pairs in sync with the connected remotes, and an empty queue for them.
#[track_caller]
pub fn wait_for_pairs(sidecar: &Sidecar, pairs: usize, limit: Duration) {
    wait_until(sidecar, limit, |metrics| {
        let ready: Vec<&str> = samples(metrics, "remote_sync_resource_ready")
            .filter(|(_, ready)| *ready > 0.0)
            .filter_map(|(labels, _)| labels.split(',').next())
            .collect();
        let sum = |family, state| -> f64 {
            let all = samples(metrics, family);
            let of = |labels: &str| {
                labels.contains(state) && ready.iter().any(|cluster| labels.starts_with(cluster))
            };
            all.filter(|(labels, _)| of(labels)).map(|(_, count)| count).sum()
        };
        let in_step = sum("remote_sync_pairs", "insync") == pairs as f64;
        !ready.is_empty() && in_step && sum("remote_sync_queue_depth", "") == 0.0
    });
}

/// Waits until the program has sent this number of writes of one sort since its start, and rests.
#[track_caller]
pub fn wait_for_writes(sidecar: &Sidecar, what: &str, writes: usize, limit: Duration) {
    wait_until(sidecar, limit, |metrics| {
        let done = samples(metrics, "remote_sync_writes_total");
        let done: f64 =
            done.filter(|(labels, _)| labels.contains(what)).map(|(_, count)| count).sum();
        let busy: f64 = samples(metrics, "remote_sync_queue_depth").map(|(_, count)| count).sum();
        done >= writes as f64 && busy == 0.0
    });
}

/// Returns what the program reports about its pairs, for a time-out.
fn unsettled(metrics: &str) -> String {
    let told = ["remote_sync_pairs{", "remote_sync_queue_depth{", "remote_sync_writes_total{"];
    let lines = metrics.lines().filter(|line| told.iter().any(|name| line.starts_with(name)));
    lines.filter(|line| !line.ends_with(" 0")).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn wait_until(sidecar: &Sidecar, limit: Duration, holds: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    loop {
        let metrics = sidecar.ask("/metrics").1;
        if holds(&metrics) {
            return;
        }
        assert!(begun.elapsed() < limit, "not done in {limit:?}:\n{}", unsettled(&metrics));
        pause(20);
    }
}
