//! The servers, the program between them, and the pairs.

mod servers;

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use dev_apiserver::{Action, Rule};
use serde_json::{Value, json};

use super::{
    config::{Config, Feature},
    model::{Pair, SECRET},
    operations::Moment,
    start::{pairs, start},
};
use suite::{
    cluster::Cluster,
    pause, real,
    sidecar::Sidecar,
    sync::{Kind, Place, REGIONS, SETTINGS, Setting, Side, Stage, WIDGETS, namespaces},
};

/// The program's -orphan-grace.
pub const GRACE: Duration = Duration::from_millis(300);
/// The program's -max-deletions: fewer than a remote's pairs, in a period that a rest can wait for.
pub const MOST: (usize, Duration) = (4, Duration::from_secs(2));

/// The state of a run, except its plan.
pub struct Scene {
    pub stage: Stage,
    config: Config,
    pub pairs: Vec<Pair>,
    /// Uids of the targets' namespaces that were made by hand, by name.
    pub namespaces: HashMap<String, String>,
    /// The last value written to each target's Secret, by the Secret's uid.
    pub secrets: HashMap<String, u64>,
    /// Violations of rules that must hold at any time.
    pub broken: Vec<(Option<usize>, String)>,
    /// How the program ended, if nobody killed it.
    pub ended: Option<String>,
    /// Whether a request of the program may have been refused since the last rest.
    pub refuses: bool,
    /// Writes before this time have been checked.
    pub looked: Instant,
    /// The number of the operation that ends the second remote's time as a clone, and the remote's own uid.
    clone: Option<(usize, String)>,
    /// The side that was restored from a backup, and when its watches last ended.
    pub restored: Option<(usize, Instant)>,
    pub kills: usize,
    sidecar: Sidecar,
    /// The logs of the last killed processes.
    logs: Vec<String>,
    /// By server: the number of the operation that ends its fault, and of the one that brings its new token.
    mends: Vec<Option<usize>>,
    rotations: Vec<Option<usize>>,
    /// The silent servers.
    silent: HashSet<usize>,
}

impl Scene {
    /// Sets up two remotes; on the real control plane only one, without cluster-scoped kinds, as others run there too.
    pub fn new(config: &Config) -> Self {
        let push = config.contains(&Feature::Push);
        let setting = Setting {
            push,
            namespace_suffix: "-{cluster}".into(),
            suffix: if push { "-{cluster}" } else { "-rs" }.into(),
            ..Setting::safe(&kinds()).secrets(&[SECRET])
        };
        let names: &[&str] = if real() { &["hub"] } else { &["hub", "east"] };
        let stage = match real() {
            true => Stage::pull("chaos", setting),
            false => {
                let remotes = names.iter().map(|name| (*name, Cluster::embedded(name))).collect();
                Stage::between(Cluster::embedded("own"), remotes, "chaos", setting)
            }
        };
        let pairs = (0..names.len()).flat_map(|remote| pairs(&stage, remote)).collect();
        let servers = names.len() + 1;
        let sidecar = start(&stage, config);
        Self {
            stage,
            config: config.clone(),
            pairs,
            namespaces: HashMap::new(),
            secrets: HashMap::new(),
            broken: Vec::new(),
            ended: None,
            refuses: false,
            looked: Instant::now(),
            clone: None,
            restored: None,
            kills: 0,
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

    pub fn has(&self, feature: Feature) -> bool {
        self.config.contains(&feature)
    }

    /// Returns whether the side of this number has targets, not sources.
    pub fn is_of_targets(&self, side: usize) -> bool {
        (side == self.stage.remotes.len()) != self.stage.setting.push
    }

    fn side(&self, server: u64) -> (usize, &Side) {
        let sides = self.sides();
        let index = server as usize % sides.len();
        (index, sides[index])
    }

    /// Returns the pairs whose target is in this namespace.
    pub fn pairs_in(&self, target: &str) -> impl Iterator<Item = (usize, &Pair)> {
        let inside = |pair: &Pair| pair.target.namespace.as_deref() == Some(target);
        self.pairs.iter().enumerate().filter(move |(_, pair)| inside(pair))
    }

    /// Returns the log of the program and of the last killed processes.
    pub fn log(&self) -> String {
        format!("{}\n{}", self.logs.join("\n"), self.sidecar.log())
    }

    /// Restarts the program if a request was refused, because it retries only after half a minute.
    pub fn forget_refusals(&mut self) {
        if std::mem::take(&mut self.refuses) {
            self.kill(Moment::Now);
        }
    }

    /// Kills and restarts the program, except while a remote shows another uid: a new process would accept that.
    fn kill(&mut self, moment: Moment) {
        if self.clone.is_some() {
            return;
        }
        if !matches!(moment, Moment::Now) && !real() {
            self.wait_for_write(moment);
        }
        self.look_at_program();
        self.sidecar.kill();
        self.kills += 1;
        if self.has(Feature::Track) {
            // If targets are gone, no finalizer makes the next process check their namespaces.
            self.pairs.iter_mut().for_each(|pair| pair.left_by = None);
        }
        for index in 0..self.mends.len() {
            let server = self.sides()[index].cluster.embedded.as_ref();
            if let Some(server) = server.filter(|_| self.mends[index].is_none()) {
                server.faults().clear();
            }
            // The next process starts with a new token.
            self.rotations[index] = None;
        }
        self.logs.push(self.sidecar.log());
        if self.logs.len() > 3 {
            self.logs.remove(0);
        }
        self.sidecar = start(&self.stage, &self.config);
    }

    /// Holds the next write to any server, and waits up to 100 ms for one.
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
        // A sent request takes a moment to be handled.
        pause(2);
    }

    /// Records the program's end if nobody killed it; it is not restarted then.
    pub fn look_at_program(&mut self) {
        if !self.sidecar.alive() && self.ended.is_none() {
            self.ended = Some(format!("the program ended by itself ({})", self.sidecar.wait()));
        }
    }
}

fn kinds() -> Vec<&'static Kind> {
    // The second kind has no spec.
    let mut kinds = vec![&WIDGETS, &SETTINGS, &REGIONS];
    kinds.retain(|kind| kind.namespaced || !real());
    kinds
}

/// Returns the namespace of an object, which is an object too.
pub fn namespace_of(place: &Place) -> Option<Place> {
    let name = place.namespace.as_deref()?;
    Some(Place::new(&place.cluster, namespaces(), "", name))
}

/// Adds the fields that make an object of this kind.
pub fn whole(place: &Place, mut object: Value) -> Value {
    object["apiVersion"] = json!(place.kind.resource.api_version());
    object["kind"] = json!(place.kind.resource.kind);
    object["metadata"]["name"] = json!(place.name);
    object
}
