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

/// The -orphan-grace of these.
pub const GRACE: Duration = Duration::from_millis(300);
/// Their -max-deletions: fewer than a remote has pairs, in a time that a rest can wait for.
pub const MOST: (usize, Duration) = (4, Duration::from_secs(2));

/// Everything of a run but its plan.
pub struct Scene {
    pub stage: Stage,
    config: Config,
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
    pub refuses: bool,
    /// All that was written before was looked at.
    pub looked: Instant,
    /// The number of the operation that ends the second remote's time as a clone, and its own uid.
    clone: Option<(usize, String)>,
    /// The side that came from a backup, and when its watches were ended last.
    pub restored: Option<(usize, Instant)>,
    pub kills: usize,
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
    /// Two remotes; on the real control plane one, of kinds in namespaces, as others run there as well.
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

    /// Whether targets are on the side of this number, or sources.
    pub fn is_of_targets(&self, side: usize) -> bool {
        (side == self.stage.remotes.len()) != self.stage.setting.push
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

    /// What was refused is tried again after half a minute, or by another process.
    pub fn forget_refusals(&mut self) {
        if std::mem::take(&mut self.refuses) {
            self.kill(Moment::Now);
        }
    }

    /// Not while a cluster shows what it is not: to one that begins then, it is that.
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
            // Their targets may be gone, and then no finalizer has the next process look at the namespaces.
            self.pairs.iter_mut().for_each(|pair| pair.left_by = None);
        }
        for index in 0..self.mends.len() {
            let server = self.sides()[index].cluster.embedded.as_ref();
            if let Some(server) = server.filter(|_| self.mends[index].is_none()) {
                server.faults().clear();
            }
            // It begins with a new token.
            self.rotations[index] = None;
        }
        self.logs.push(self.sidecar.log());
        if self.logs.len() > 3 {
            self.logs.remove(0);
        }
        self.sidecar = start(&self.stage, &self.config);
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
        if !self.sidecar.alive() && self.ended.is_none() {
            self.ended = Some(format!("the program ended by itself ({})", self.sidecar.wait()));
        }
    }
}

fn kinds() -> Vec<&'static Kind> {
    // The second has no spec.
    let mut kinds = vec![&WIDGETS, &SETTINGS, &REGIONS];
    kinds.retain(|kind| kind.namespaced || !real());
    kinds
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
