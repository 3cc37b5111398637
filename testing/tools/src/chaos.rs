//! Random operations on both sides of copies between clusters, on the servers and on the program. A model knows what
//! both sides must look like at rest, and what may be deleted at each moment.
//!
//! The operations depend only on the seed. Their effects also depend on timing, so a seed reproduces a defect only with
//! luck; a few retries are meant to be cheap.

mod check;
pub mod config;
mod faults;
mod model;
mod operations;
mod people;
mod perform;
mod requests;
mod scene;
mod start;

use std::{
    collections::BTreeSet,
    fmt::Write,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use self::{
    check::Difference,
    config::{Config, Feature},
    model::Pair,
    operations::{Operation, Planned, plan},
    scene::Scene,
};
use suite::{pause, real};

/// The number of operations between rests.
const BATCH: usize = 250;
/// The time limit for a rest.
const REST: Duration = Duration::from_secs(30);
/// The same for real servers, which take tens of seconds to empty a namespace.
const REST_ON_REAL: Duration = Duration::from_secs(120);
/// How long nothing may be written at rest, in milliseconds.
const QUIET: u64 = 250;

/// What to run.
#[derive(Clone, Debug)]
pub struct Run {
    pub seed: u64,
    pub operations: usize,
    pub config: Config,
}

/// What a successful run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub operations: usize,
    /// The number of operations that the servers accepted.
    pub done: usize,
    pub writes: usize,
    pub kills: usize,
    pub rests: usize,
}

/// The report of what went wrong.
type Failure = String;

impl Run {
    /// Runs to the end, or to the first rest that differs from the model. Calls `progress` at each rest.
    pub fn run(&self, mut progress: impl FnMut(&Summary)) -> Result<Summary, Failure> {
        let mut scene = Scene::new(&self.config);
        let mut summary = Summary::default();
        let all = plan(self.seed, self.operations);
        for (number, planned) in all.iter().enumerate() {
            summary.done += usize::from(self.step(&mut scene, number, planned));
            summary.operations += 1;
            scene.look_at_program();
            if let Some(how) = &scene.ended {
                return Err(failure(&scene, number, &[(None, how.clone())]));
            }
            if summary.operations % BATCH == 0 || summary.operations == all.len() {
                summary.writes += come_to_rest(&mut scene, number)?;
                (summary.rests, summary.kills) = (summary.rests + 1, scene.kills);
                progress(&summary);
                if scene.has(Feature::Secrets) {
                    self.lose_secrets(&mut scene, number, summary.rests)?;
                }
                if real() {
                    continue;
                }
                match summary.rests % 2 {
                    0 => self.lose_a_cluster(&mut scene, number, summary.rests)?,
                    _ => self.restore_a_cluster(&mut scene, number, summary.rests)?,
                }
            }
        }
        Ok(summary)
    }

    /// Creates all sources of a remote, and loses them: more than may be deleted at once.
    fn lose_a_cluster(
        &self,
        scene: &mut Scene,
        number: usize,
        rests: usize,
    ) -> Result<(), Failure> {
        let all = self.of_a_remote(scene, rests);
        for pair in &all {
            perform::perform(scene, *pair, Operation::Create(1));
        }
        come_to_rest(scene, number)?;
        for pair in all {
            perform::perform(scene, pair, Operation::Lose);
            scene.pairs[pair].history.push("lost with its cluster".to_owned());
        }
        thread::sleep(2 * scene::GRACE);
        Ok(())
    }

    /// Has the Secrets of a remote's pairs uploaded, and loses the uploaded ones.
    fn lose_secrets(&self, scene: &mut Scene, number: usize, rests: usize) -> Result<(), Failure> {
        let value = number as u64;
        for pair in self.of_a_remote(scene, rests) {
            perform::perform(scene, pair, Operation::Secret { value, anew: false });
        }
        come_to_rest(scene, number)?;
        for pair in self.of_a_remote(scene, rests) {
            perform::perform(scene, pair, Operation::LoseSecret);
            scene.pairs[pair].history.push("its Secret was lost".to_owned());
        }
        come_to_rest(scene, number).map(drop)
    }

    /// Changes a cluster of sources, waits for a rest, and restores the cluster from an earlier backup.
    fn restore_a_cluster(
        &self,
        scene: &mut Scene,
        number: usize,
        rests: usize,
    ) -> Result<(), Failure> {
        let Some(first) = self.of_a_remote(scene, rests).first().copied() else { return Ok(()) };
        let cluster = scene.pairs[first].source.cluster.clone();
        let is_there = |pair: &usize| Arc::ptr_eq(&scene.pairs[*pair].source.cluster, &cluster);
        let all: Vec<_> = (0..scene.pairs.len()).filter(is_there).collect();
        let backup = cluster.server().backup();
        let wanted: Vec<_> = all.iter().map(|pair| scene.pairs[*pair].wanted.clone()).collect();
        let value = number as u64;
        for pair in &all {
            let operation = match (pair + rests) % 4 {
                0 => Operation::Create(value),
                1 => Operation::Delete,
                2 => Operation::Edit(value),
                _ => Operation::Status(value),
            };
            perform::perform(scene, *pair, operation);
        }
        come_to_rest(scene, number)?;
        let at = Instant::now();
        cluster.server().restore(&backup);
        for (pair, wanted) in all.into_iter().zip(wanted) {
            scene.pairs[pair].restore(wanted, at);
            scene.pairs[pair].history.push("restored with its cluster".to_owned());
        }
        let mut sides = scene.sides().into_iter();
        let side = sides.position(|side| Arc::ptr_eq(&side.cluster, &cluster));
        scene.restored = side.map(|side| (side, at));
        come_to_rest(scene, number).map(drop)
    }

    /// Returns the pairs of the remote whose turn it is.
    fn of_a_remote(&self, scene: &Scene, rests: usize) -> Vec<usize> {
        let remote = turn(scene, rests);
        let of_it = |pair: &usize| scene.pairs[*pair].remote == remote;
        (0..scene.pairs.len()).filter(of_it).collect()
    }

    /// Performs one operation; returns whether it succeeded.
    fn step(&self, scene: &mut Scene, number: usize, planned: &Planned) -> bool {
        let Planned { operation, pair, rest } = *planned;
        scene.mend(number);
        let pair = pair as usize % scene.pairs.len();
        let done = if !operation.is_of_pair() {
            scene.disturb(number, operation);
            true
        } else {
            let outcome = perform::perform(scene, pair, operation);
            let line = format!("#{number} {operation:?}: {outcome}");
            scene.pairs[pair].history.push(line);
            outcome == "done"
        };
        pause(rest);
        done
    }
}

/// Returns the remote whose turn it is.
fn turn(scene: &Scene, rests: usize) -> usize {
    rests / 2 % scene.stage.remotes.len()
}

/// Ends all disturbances, and waits until both sides match the model and nothing is written any more. Returns the
/// number of writes.
fn come_to_rest(scene: &mut Scene, number: usize) -> Result<usize, Failure> {
    scene.mend(usize::MAX);
    scene.forget_refusals();
    pause(QUIET * 2);
    let end = Instant::now() + if real() { REST_ON_REAL } else { REST };
    let mut writes = 0;
    loop {
        people::let_go(scene);
        if people::bring_kinds_back(scene) {
            scene.forget_refusals();
        }
        scene.end_silent_watches();
        scene.broken.clear();
        let now = requests::look_at(scene);
        scene.look_at_program();
        scene.broken.extend(scene.ended.clone().map(|how| (None, how)));
        let found = check::differences(scene);
        if found.is_empty() && now == writes {
            requests::forget(scene);
            scene.restored = None;
            scene.pairs.iter_mut().for_each(Pair::rest);
            return Ok(writes);
        }
        if Instant::now() > end || !scene.broken.is_empty() {
            return Err(failure(scene, number, &found));
        }
        // An audit log lags behind the answers, and is read as a whole each time.
        let wait = if found.is_empty() || real() { QUIET } else { 50 };
        writes = now;
        pause(wait);
    }
}

fn failure(scene: &Scene, number: usize, found: &[Difference]) -> Failure {
    let mut report = format!("after operation {number}:\n");
    let pairs: BTreeSet<_> = found.iter().filter_map(|(pair, _)| *pair).collect();
    for (pair, what) in found {
        let name = pair.map(|pair| name(scene, pair)).unwrap_or_default();
        let _ = writeln!(report, "  {name} {what}");
    }
    pairs.iter().for_each(|pair| tell_of(scene, *pair, &mut report));
    let log = scene.log();
    let lines: Vec<_> = log.lines().collect();
    report += "\nthe end of the program's log:\n";
    for line in &lines[lines.len().saturating_sub(60)..] {
        let _ = writeln!(report, "  | {line}");
    }
    report
}

/// Reports a pair's operations, its state, and what the program logged about it: the last lines of each.
fn tell_of(scene: &Scene, index: usize, report: &mut String) {
    const LAST: usize = 40;
    let pair = &scene.pairs[index];
    let _ = writeln!(report, "\nwhat touched {}", name(scene, index));
    for line in pair.history.iter().skip(pair.history.len().saturating_sub(LAST)) {
        let _ = writeln!(report, "  {line}");
    }
    for (what, place) in [("source", &pair.source), ("target", &pair.target)] {
        let _ = writeln!(report, "  {what}: {}", place.stored().unwrap_or_default());
    }
    if let Some(namespace) = scene::namespace_of(&pair.target) {
        let _ = writeln!(report, "  its namespace: {}", namespace.stored().unwrap_or_default());
    }
    let namespace = pair.source.namespace.as_deref().unwrap_or("\"\"");
    let remote = &scene.stage.remotes[pair.remote].name;
    let (kind, name) = (pair.source.kind.flag(), &pair.source.name);
    let keys = format!(" remote={remote} kind={kind} namespace={namespace} name={name}");
    let log = scene.log();
    let is_of_pair = |line: &&str| line.ends_with(&keys) || line.contains(&format!("{keys} "));
    let lines: Vec<_> = log.lines().filter(is_of_pair).collect();
    for line in &lines[lines.len().saturating_sub(LAST)..] {
        let _ = writeln!(report, "  | {line}");
    }
}

/// `pair 3 (hub, widgets ns/a):`
fn name(scene: &Scene, pair: usize) -> String {
    let target = &scene.pairs[pair].target;
    let remote = &scene.stage.remotes[scene.pairs[pair].remote].name;
    format!("pair {pair} ({remote}, {}):", target.target())
}
