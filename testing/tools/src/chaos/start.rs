//! The pairs and the program on the stage of a run, and what its clusters show it.

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

/// No wait longer than a run can be. A silent connection is given up after five probes, which take 3.5 s;
/// what was asked on it just then ends 1 s later. See [`UNAWARE`](super::model::UNAWARE).
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

/// What a cluster is identified by: the uid of this Namespace.
pub fn identity(cluster: &Arc<Cluster>) -> String {
    let namespace = Place::new(cluster, namespaces(), "", "kube-system").stored();
    namespace.expect("a namespace")["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// How the marks of copies name the cluster of a pair's source.
pub fn marked(stage: &Stage, pair: &Pair) -> String {
    let name = if stage.setting.push { "own" } else { &*stage.remotes[pair.remote].name };
    format!("{name}={}", identity(&pair.source.cluster))
}

/// Has a cluster show this uid to whoever connects.
pub fn show(side: &Side, uid: &str) {
    side.cluster.server().alter("v1", "namespaces", "", "kube-system", |object| {
        object["metadata"]["uid"] = json!(uid);
        true
    });
    side.relay.cut();
}

/// A schema that knows all that a widget may have here but `spec.extra`.
pub fn without_extra() -> Value {
    let any = json!({"x-kubernetes-preserve-unknown-fields": true, "type": "object"});
    let known = json!({"size": {"type": "integer"}, "filling": {"type": "string"}});
    let spec = json!({"type": "object", "properties": known});
    json!({"type": "object", "properties": {"spec": spec, "status": any}})
}

/// Those of one remote: alone in their namespace, together in one, and outside of all.
pub fn pairs(stage: &Stage, remote: usize) -> Vec<Pair> {
    let alone = ["solo", "lone"].map(|namespace| (namespace, &WIDGETS, "one"));
    let together: [(&str, &'static Kind, &str); 5] = [
        ("many", &WIDGETS, "a"),
        ("many", &WIDGETS, "b"),
        ("many", &WIDGETS, "c"),
        // An object of another kind with the same name.
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
