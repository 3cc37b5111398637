//! The servers, the program between them, and the pairs.

use std::{
    collections::{HashMap, HashSet},
    fs,
    time::{Duration, Instant},
};

use dev_apiserver::{Action, Rule};
use serde_json::{Value, json};

use super::{
    faults::faults,
    model::Pair,
    operations::{Moment, Operation},
};
use crate::{
    cluster::Cluster,
    pause,
    relay::Way,
    sidecar::Sidecar,
    sync::{BUDGETS, Kind, Place, REGIONS, SETTINGS, Setting, Side, Stage, WIDGETS, namespaces},
};

/// The Secret that goes up from each namespace.
pub const SECRET: &str = "token";
/// No wait longer than a run can be. A silent connection is given up after five probes, which take 2.5 s;
/// what was asked on it just then ends 2 s later. See [`UNAWARE`](super::model::UNAWARE).
const SHORT: [&str; 14] = [
    "-qps",
    "0",
    "-connection-retry",
    "200ms",
    "-probe-interval",
    "200ms",
    "-probe-timeout",
    "300ms",
    "-orphan-grace",
    "300ms",
    "-max-deletions",
    "4/2s",
    "-timeout",
    "2s",
];

/// Days by which a clock is wrong.
const WRONG: i64 = 400;
/// The -orphan-grace of these.
pub const GRACE: Duration = Duration::from_millis(300);
/// Their -max-deletions: fewer than a remote has pairs, in a time that a rest can wait for.
pub const MOST: (usize, Duration) = (4, Duration::from_secs(2));

/// Everything of a run but its plan.
pub struct Scene {
    pub stage: Stage,
    pub pairs: Vec<Pair>,
    /// By namespace of the target: the uid of the one that was made by hand.
    pub namespaces: HashMap<String, String>,
    /// The Secrets of targets by uid, with the value that they were given last.
    pub secrets: HashMap<String, u64>,
    /// What broke a rule that holds at every moment.
    pub broken: Vec<(Option<usize>, String)>,
    /// How the program ended that nobody had killed.
    pub ended: Option<String>,
    /// Whether the program may have been refused something since the last rest.
    refuses: bool,
    /// The remote that came from a backup, and when its watches were ended last.
    pub restored: Option<(usize, Instant)>,
    pub kills: usize,
    /// When the program began each time; it remembers nothing of before.
    pub starts: Vec<Instant>,
    sidecar: Sidecar,
    /// Of those that were killed.
    logs: Vec<String>,
    /// By server: the number of the operation that ends what is wrong with it, and the token that is to come.
    mends: Vec<Option<usize>>,
    rotations: Vec<Option<usize>>,
    /// Those that are silent.
    silent: HashSet<usize>,
}

impl Scene {
    /// Two remotes, in compat one: there no kind outside of namespaces can have several.
    pub fn new(compat: bool) -> Self {
        let setting = Setting {
            compat,
            namespace_suffix: "-{cluster}".into(),
            suffix: "-rs".into(),
            ..Setting::safe(&[&WIDGETS, second(compat), &REGIONS]).secrets(&[SECRET])
        };
        let names: &[&str] = if compat { &["hub"] } else { &["hub", "east"] };
        let remotes = names.iter().map(|name| (*name, Cluster::embedded(name))).collect();
        let stage = Stage::between(Cluster::embedded("own"), remotes, "chaos", setting);
        let pairs = (0..names.len()).flat_map(|remote| pairs(&stage, remote)).collect();
        let servers = names.len() + 1;
        let sidecar = stage.start(&SHORT);
        Self {
            stage,
            pairs,
            namespaces: HashMap::new(),
            secrets: HashMap::new(),
            broken: Vec::new(),
            ended: None,
            refuses: false,
            restored: None,
            kills: 0,
            starts: Vec::new(),
            sidecar,
            logs: Vec::new(),
            mends: vec![None; servers],
            rotations: vec![None; servers],
            silent: HashSet::new(),
        }
    }

    pub fn sides(&self) -> Vec<&Side> {
        self.stage.sides().collect()
    }

    fn side(&self, server: u64) -> (usize, &Side) {
        let sides = self.sides();
        let index = server as usize % sides.len();
        (index, sides[index])
    }

    /// The pairs with an object in this namespace of the target.
    pub fn pairs_in(&self, target: &str) -> impl Iterator<Item = (usize, &Pair)> {
        let inside = |pair: &Pair| pair.target.namespace.as_deref() == Some(target);
        self.pairs.iter().enumerate().filter(move |(_, pair)| inside(pair))
    }

    /// The log of the program and of the few that ran before.
    pub fn log(&self) -> String {
        format!("{}\n{}", self.logs.join("\n"), self.sidecar.log())
    }

    // --- servers ---

    /// Does something to a server or to the program, as the operation of this number.
    pub fn disturb(&mut self, number: usize, operation: Operation) {
        let until = |length: u64| Some(number + length as usize);
        match operation {
            Operation::Silence(server, length) => {
                let (index, side) = self.side(server);
                side.relay.set(Way::Silent);
                self.silent.insert(index);
                self.mends[index] = until(length);
            }
            Operation::Refuse(server, length) => {
                let (index, side) = self.side(server);
                side.relay.set(Way::Closed);
                self.mends[index] = until(length);
            }
            Operation::Cut(server) => self.side(server).1.relay.cut(),
            Operation::Fault { server, fault, length } => {
                let all = faults();
                let chosen = all[fault as usize % all.len()].clone();
                self.refuses |= chosen.is_refusal();
                let (index, side) = self.side(server);
                let is_silent = chosen.action == Action::WatchSilent;
                let mut rule = Rule::new(chosen.action).user(&side.user()).probability(0.4, fault);
                rule.verb = chosen.verb.map(str::to_owned);
                side.cluster.faults().add(rule);
                if is_silent {
                    side.relay.cut();
                    self.silent.insert(index);
                }
                self.mends[index] = until(length);
            }
            Operation::Clock { server, ahead, length } => {
                let (index, side) = self.side(server);
                let days = if ahead { WRONG } else { -WRONG };
                side.cluster.faults().set_date_offset(days * 24 * 3600);
                self.mends[index] = until(length);
            }
            Operation::Compact(server) => {
                let side = self.side(server).1;
                side.cluster.server().compact();
                side.relay.cut();
            }
            Operation::Rotate { server, gap } => {
                let (index, side) = self.side(server);
                self.revoke(side, gap == 0);
                if gap > 0 {
                    self.rotations[index] = until(gap);
                }
            }
            Operation::Kill(moment) => self.kill(moment),
            _ => unreachable!("it is about a pair"),
        }
    }

    /// A watch from a server's future says nothing until its time is over, which is minutes otherwise.
    pub fn end_silent_watches(&mut self) {
        let Some((remote, at)) = self.restored else { return };
        if at.elapsed() > Duration::from_secs(2) {
            self.stage.remotes[remote].relay.cut();
            self.restored = Some((remote, Instant::now()));
        }
    }

    /// Ends what is over by the operation of this number.
    pub fn mend(&mut self, number: usize) {
        for index in 0..self.mends.len() {
            if self.mends[index].is_some_and(|until| until <= number) {
                self.mends[index] = None;
                // The relay swallows bytes; TCP would send them again. A watch stays silent forever.
                let was_silent = self.silent.remove(&index);
                let side = self.sides()[index];
                if was_silent {
                    side.relay.cut();
                }
                side.cluster.faults().heal();
                side.relay.set(Way::Open);
            }
            if self.rotations[index].is_some_and(|until| until <= number) {
                self.rotations[index] = None;
                let side = self.sides()[index];
                self.stage.write(&file(side), &side.kubeconfig());
            }
        }
    }

    /// Makes the token worthless that the program has for a server; with another one in its file before.
    fn revoke(&self, side: &Side, at_once: bool) {
        let path = self.stage.directory.path().join(file(side));
        let text = fs::read_to_string(path).expect("the kubeconfig");
        let config: Value = serde_json::from_str(&text).expect("JSON");
        let token = config["users"][0]["user"]["token"].as_str().expect("a token");
        if at_once {
            self.stage.write(&file(side), &side.kubeconfig());
        }
        side.cluster.server().revoke(token);
    }

    // --- the program ---

    /// What was refused is tried again after half a minute, or by another process.
    pub fn forget_refusals(&mut self) {
        if std::mem::take(&mut self.refuses) {
            self.kill(Moment::Now);
        }
    }

    fn kill(&mut self, moment: Moment) {
        if !matches!(moment, Moment::Now) {
            self.wait_for_write(moment);
        }
        self.look_at_program();
        self.sidecar.kill();
        self.kills += 1;
        for index in 0..self.mends.len() {
            let faults = self.sides()[index].cluster.faults();
            if self.mends[index].is_none() {
                faults.clear();
            }
            // It begins with a new token.
            self.rotations[index] = None;
        }
        self.logs.push(self.sidecar.log());
        if self.logs.len() > 3 {
            self.logs.remove(0);
        }
        self.starts.push(Instant::now());
        self.sidecar = self.stage.start(&SHORT);
    }

    /// Holds the next write to any server, and waits a moment for it.
    fn wait_for_write(&self, moment: Moment) {
        let mut held = Vec::new();
        for side in self.sides() {
            let faults = side.cluster.faults();
            for verb in ["create", "update", "patch", "delete"] {
                let rule = |action| Rule::new(action).verb(verb).user(&side.user()).times(1);
                let action = match moment {
                    Moment::Before => Action::Delay { milliseconds: 500 },
                    _ => Action::Stall,
                };
                held.push((faults, faults.add(rule(action))));
                if matches!(moment, Moment::Before) {
                    faults.add(rule(Action::Drop));
                }
            }
        }
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end && !held.iter().any(|(faults, rule)| faults.hits(*rule) > 0) {
            pause(1);
        }
        // What was sent takes a moment to be done.
        pause(2);
    }

    /// Notes if it is not alive though nobody killed it; it is not started again then.
    pub fn look_at_program(&mut self) {
        if self.ended.is_none() && !self.sidecar.alive() {
            let code = self.sidecar.wait();
            self.ended = Some(format!("the program ended by itself ({code})"));
        }
    }
}

/// As the stage calls the kubeconfig of a side.
fn file(side: &Side) -> String {
    let name = if side.name.is_empty() { "own" } else { &side.name };
    format!("{name}.kubeconfig")
}

/// Without a spec, where that is copied too.
fn second(compat: bool) -> &'static Kind {
    if compat { &BUDGETS } else { &SETTINGS }
}

/// Those of one remote: alone in their namespace, together in one, and outside of all.
fn pairs(stage: &Stage, remote: usize) -> Vec<Pair> {
    let alone = ["solo", "lone"].map(|namespace| (namespace, &WIDGETS, "one"));
    let together: [(&str, &'static Kind, &str); 5] = [
        ("many", &WIDGETS, "a"),
        ("many", &WIDGETS, "b"),
        ("many", &WIDGETS, "c"),
        // An object of another kind with the same name.
        ("many", second(stage.setting.compat), "a"),
        ("many", second(stage.setting.compat), "d"),
    ];
    let region = stage.remotes[remote].name.as_str();
    let outside = [("", &REGIONS, region)];
    let pair = |(namespace, kind, name): (&str, &'static Kind, &str)| {
        let namespace = format!("{}-{namespace}", stage.namespace);
        let source = stage.source_in(remote, kind, &namespace, name);
        Pair::new(remote, source, stage.target_in(remote, kind, &namespace, name))
    };
    alone.into_iter().chain(together).chain(outside).map(pair).collect()
}

/// The namespace of an object, an object itself.
pub fn namespace_of(place: &Place) -> Option<Place> {
    let name = place.namespace.as_deref()?;
    Some(Place::new(&place.cluster, namespaces(), "", name))
}

/// The fields that make an object of this kind.
pub fn whole(place: &Place, mut object: Value) -> Value {
    object["apiVersion"] = json!(place.kind.resource.api_version());
    object["kind"] = json!(place.kind.resource.kind);
    object["metadata"]["name"] = json!(place.name);
    object
}
