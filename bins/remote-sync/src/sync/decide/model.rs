//! Model of two remotes and one target cluster. It explores requests, crashes, lost responses, late events, edits by
//! others, cloned identities, forged sources and removed kinds. Every order is tried, with a limited number of
//! troubles. The [`Rule`] decides like the program.
//!
//! `MODEL=whole`, as `make model` sets it, allows more troubles than `cargo test`.

mod begin;
mod perform;
mod process;
mod rule;
mod view;
mod world;

use std::{borrow::Cow, env};

use explorer::{Model, Step, explore};

use self::{
    begin::Begin,
    process::{pairs, state},
    rule::{Rule, Safeguard},
    view::Source,
    world::{Events, REMOTES, World},
};
use crate::sync::status::PairState;

/// `-max-deletions` of the model; no token is ever added.
const MOST: u32 = 1;

/// The model: its rule, its possible events and its initial worlds.
struct Sync {
    rule: Rule,
    events: Events,
    starts: Vec<World>,
}

impl Model for Sync {
    type State = World;
    type Event = Cow<'static, str>;

    fn starts(&self) -> Vec<World> {
        self.starts.clone()
    }

    fn steps(&self, world: &World) -> Vec<Step<World, Self::Event>> {
        let mut steps = Vec::new();
        world.server_steps(&mut steps);
        self.process_steps(world, &mut steps);
        if world.troubles > 0 {
            world.people_steps(&self.events, &mut steps);
        }
        steps
    }

    fn at_rest(&self, world: &World) -> Result<(), String> {
        for (remote, name) in pairs() {
            if remote < self.events.remotes && !self.is_parked(world, remote) {
                self.pair_at_rest(world, remote, name)?;
            }
        }
        let held = |(remote, name): (usize, usize)| {
            let process = world.process.as_ref().unwrap();
            state(process.ends[remote][name]) == Some(PairState::Held)
        };
        // A namespace is kept if it was created for another cluster.
        let sessions = world.process.as_ref().map_or([None; REMOTES], |process| process.sessions);
        let made_for = world.namespace.and_then(|namespace| namespace.made_for);
        // It is also kept if that cluster had no uid.
        let made = made_for.is_some_and(|made| made.uid > 0 && sessions[made.remote] == Some(made));
        let empty = !world.used && world.targets.iter().all(Option::is_none);
        let wanted = world.remotes.iter().any(|remote| remote.sources.iter().any(Option::is_some));
        if self.events.deletes_namespaces && made && empty && !wanted && !pairs().any(held) {
            return Err("a namespace is left behind".into());
        }
        Ok(())
    }
}

impl Sync {
    fn pair_at_rest(&self, world: &World, remote: usize, name: usize) -> Result<(), String> {
        let Some(process) = &world.process else { return Err("it rests without a process".into()) };
        let (end, target) = (process.ends[remote][name], world.targets[name]);
        let copy = target.filter(|target| target.owner == Some(remote));
        match world.remotes[remote].sources[name] {
            Some(source) if source.terminating => {
                match source.finalizer && state(end) != Some(PairState::Held) {
                    true => Err("a finalizer is left behind".into()),
                    false => Ok(()),
                }
            }
            Some(source) => match (end, copy) {
                _ if matches!(state(end), Some(PairState::Conflict | PairState::Held)) => Ok(()),
                (Some(None), Some(copy)) if copy.content == source.content => {
                    self.records_at_rest(&source)
                }
                _ => Err(format!("it rests out of step, as {end:?}")),
            },
            None if copy.is_some() && state(end) != Some(PairState::Held) => {
                Err(format!("a copy is left without its source, as {end:?}"))
            }
            None => Ok(()),
        }
    }

    /// Checks that a source has exactly the records that the bookkeeping requires.
    fn records_at_rest(&self, source: &Source) -> Result<(), String> {
        let wanted = self.events.marks_sources;
        match (source.finalizer, source.published.is_some()) == (wanted, wanted) {
            true => Ok(()),
            false => Err(format!("it rests with the records of another bookkeeping: {source:?}")),
        }
    }
}

/// The values of `-track`. Worlds also begin with what the other value left.
const TRACKS: [(&str, bool, bool); 2] = [("source", true, true), ("target", false, false)];

/// All events for one name of one remote.
const ONE: Events = Events {
    names: 1,
    remotes: 1,
    people: true,
    vanish: true,
    sweep: true,
    forge: true,
    foreign: true,
    stale: true,
    crash: true,
    identities: false,
    marks_sources: true,
    deletes_namespaces: true,
};

/// One name, one remote and no events.
const NOTHING: Events = Events {
    people: false,
    vanish: false,
    sweep: false,
    forge: false,
    foreign: false,
    stale: false,
    crash: false,
    ..ONE
};

/// Explores the rule, and fails if it breaks an invariant.
fn holds(name: &str, events: Events, shows: [u8; 2], begins: &[Begin], troubles: [u8; 2]) {
    let whole = env::var("MODEL").is_ok_and(|part| part == "whole");
    let troubles = troubles[usize::from(whole)];
    let starts = begins.iter().map(|begin| begin.world(shows, troubles)).collect();
    let explored = explore(&Sync { rule: Rule::new(), events, starts });
    println!("{name}, {troubles} troubles: {explored}");
    if let Some(violation) = explored.violation {
        panic!("{violation}");
    }
}

#[test]
fn one_pair_keeps_every_invariant() {
    let begins = [
        Begin::Empty,
        Begin::CopyAndOther,
        Begin::CopyAlone,
        Begin::Source,
        Begin::Takeover,
        Begin::Foreign,
    ];
    for (name, marks_sources, deletes_namespaces) in TRACKS {
        let events = Events { marks_sources, deletes_namespaces, ..ONE };
        // Four troubles violate it: the namespace of a source that vanished during a restart stays.
        holds(&format!("one pair, {name}"), events, [1, 2], &begins, [2, 3]);
    }
}

#[test]
fn two_pairs_of_one_remote_keep_every_invariant() {
    let begins = [Begin::Copy, Begin::Copies, Begin::SecondCopy];
    for (name, marks_sources, deletes_namespaces) in TRACKS {
        let events = Events { names: 2, marks_sources, deletes_namespaces, ..ONE };
        holds(&format!("two pairs, {name}"), events, [1, 2], &begins, [1, 2]);
    }
}

/// Either remote may lie, hide its uid, be unreachable, or be a clone of the other.
#[test]
fn remotes_of_any_identity_keep_every_invariant() {
    let events =
        Events { remotes: 2, people: false, sweep: false, foreign: false, identities: true, ..ONE };
    for (name, marks_sources, deletes_namespaces) in TRACKS {
        for shows in [[1, 2], [1, 1], [0, 2], [0, 0]] {
            let begins = [Begin::Copy, Begin::Clone, Begin::Source];
            let name = format!("identities {shows:?}, {name}");
            holds(
                &name,
                Events { marks_sources, deletes_namespaces, ..events },
                shows,
                &begins,
                [1, 2],
            );
        }
    }
}

#[test]
fn two_remotes_keep_every_invariant() {
    let begins = [Begin::Copy, Begin::Source, Begin::Foreign];
    for (name, marks_sources, deletes_namespaces) in TRACKS {
        let events = Events { remotes: 2, marks_sources, deletes_namespaces, ..ONE };
        holds(&format!("two remotes, {name}"), events, [1, 2], &begins, [1, 2]);
    }
}

#[test]
fn every_missing_safeguard_is_found() {
    let limit = Events { names: 2, people: true, ..NOTHING };
    let clone = Events { remotes: 2, ..NOTHING };
    let forgery = Events { identities: true, forge: true, people: true, ..clone };
    let proof = Events { stale: true, ..NOTHING };
    let (copy, copies) = (Begin::Copy, Begin::Copies);
    for (safeguard, events, shows, begin, troubles, what) in [
        (Safeguard::Limit, limit, [1, 2], copies, 2, "more copies are deleted than the limit"),
        (Safeguard::Identity, clone, [1, 1], copy, 0, "another remote's copy is deleted"),
        (Safeguard::Identity, forgery, [1, 1], Begin::Clone, 2, "another remote's copy is changed"),
        (Safeguard::Proof, proof, [1, 2], copy, 1, "a copy is deleted while its source lives"),
    ] {
        let found = |rule| {
            let starts = vec![begin.world(shows, troubles)];
            explore(&Sync { rule, events, starts }).violation
        };
        let violation = found(Rule::without(safeguard)).expect(what);
        assert!(violation.what.contains(what) && violation.trace.len() <= 16, "{violation}");
        assert!(found(Rule::new()).is_none(), "{what}");
    }
}
