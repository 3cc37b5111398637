//! The pairs and the program of a run, and what its clusters show to it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    config::{Config, Feature},
    model::{Pair, SECRET},
};
use suite::{
    cluster::Cluster,
    real,
    sidecar::Sidecar,
    sync::{Kind, Place, REGIONS, SETTINGS, Side, Stage, WIDGETS, namespaces},
};

/// Short waits, to suit a run. A silent connection is given up after five probes, which take 3.5 s; its last request
/// ends 1 s later. See [`UNAWARE`](super::model::UNAWARE).
const SHORT: [&str; 12] = [
    "-namespace-policy",
    "empty",
    "-qps",
    "0",
    "-probe-interval",
    "200ms",
    "-orphan-grace",
    "300ms",
    "-max-deletions",
    "4/2s",
    "-timeout",
    "1s",
];

/// Starts the program.
pub fn start(stage: &Stage, config: &Config) -> Sidecar {
    let mut flags = SHORT.to_vec();
    flags.extend(["-adopt", if config.contains(&Feature::Equal) { "equal" } else { "always" }]);
    if config.contains(&Feature::Track) {
        flags.extend(["-track", "target"]);
    }
    if config.contains(&Feature::Secrets) {
        flags.extend(["-resync", "1s"]);
    }
    stage.start(&flags)
}

/// Returns what identifies a cluster: the uid of its Namespace kube-system.
pub fn identity(cluster: &Arc<Cluster>) -> String {
    let namespace = Place::new(cluster, namespaces(), "", "kube-system").stored();
    namespace.expect("a namespace")["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// Returns the name of the source's cluster in the mark of a copy.
pub fn marked(stage: &Stage, pair: &Pair) -> String {
    let name = if stage.setting.push { "own" } else { &*stage.remotes[pair.remote].name };
    format!("{name}={}", identity(&pair.source.cluster))
}

/// Makes a cluster show this uid to new connections.
pub fn show(side: &Side, uid: &str) {
    side.cluster.server().alter("v1", "namespaces", "", "kube-system", |object| {
        object["metadata"]["uid"] = json!(uid);
        true
    });
    side.relay.cut();
}

/// Returns a schema that has all fields of a widget except `spec.extra`.
pub fn without_extra() -> Value {
    let any = json!({"x-kubernetes-preserve-unknown-fields": true, "type": "object"});
    let known = json!({"size": {"type": "integer"}, "filling": {"type": "string"}});
    let spec = json!({"type": "object", "properties": known});
    json!({"type": "object", "properties": {"spec": spec, "status": any}})
}

/// Returns the pairs of one remote: alone in a namespace, together in one, and cluster-scoped.
pub fn pairs(stage: &Stage, remote: usize) -> Vec<Pair> {
    let alone = ["solo", "lone"].map(|namespace| (namespace, &WIDGETS, "one"));
    let together: [(&str, &'static Kind, &str); 5] = [
        ("many", &WIDGETS, "a"),
        ("many", &WIDGETS, "b"),
        ("many", &WIDGETS, "c"),
        // The same name as another kind's object.
        ("many", &SETTINGS, "a"),
        ("many", &SETTINGS, "d"),
    ];
    let region = stage.remotes[remote].name.as_str();
    let outside = [("", &REGIONS, region)];
    let suffix = stage.setting.suffix.replace("{cluster}", region);
    let pair = |(namespace, kind, name): (&str, &'static Kind, &str)| {
        let namespace = format!("{}-{namespace}", stage.namespace);
        let source = stage.source_in(remote, kind, &namespace, name);
        let target = stage.target_in(remote, kind, &namespace, name);
        Pair::new(remote, source, target, format!("{SECRET}{suffix}"))
    };
    let all = alone.into_iter().chain(together).chain(outside);
    all.filter(|(_, kind, _)| kind.namespaced || !real()).map(pair).collect()
}
