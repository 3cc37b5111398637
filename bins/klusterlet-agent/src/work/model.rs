//! Model of a work's life: each request of a pass may fail, lose its answer or be the last of its process, and others
//! write in between. `reconcile` and everything that it calls is the shipped code.

mod changes;
mod connection;
mod world;

use explorer::{Model, Step, explore};
use serde_json::json;

use self::{
    changes::{Change, Spec},
    connection::{Connection, Fault},
    world::{OBJECTS, World},
};
use super::{
    bring::WorkMemory,
    reconcile::{finalize, reconcile},
    record::{WorkAgent, delete_record},
};

struct WorkModel {
    changes: u8,
    troubles: u8,
    executor: Option<bool>,
    lacks_patch: bool,
}

impl Model for WorkModel {
    type State = World;
    type Event = String;

    fn starts(&self) -> Vec<World> {
        let mut world = World::new(self.changes, self.troubles, self.executor);
        world.lacks_patch = self.lacks_patch;
        vec![world]
    }

    fn steps(&self, world: &World) -> Vec<Step<World, String>> {
        let mut steps = Vec::new();
        let (after, requests) = pass(world, None);
        let calm = |world: &World, event: &str, change: &dyn Fn(&mut World)| {
            Step::by(world, event.to_owned(), true, |world| {
                change(world);
                world.judge()
            })
        };
        if after != *world {
            steps.push(calm(world, "pass", &|world| *world = after.clone()));
        }
        if world.collectable() {
            steps.push(calm(world, "garbage collection", &World::collect));
        }
        if world.troubles > 0 {
            let faults = [Fault::NotSent, Fault::AnswerLost, Fault::Killed];
            for (at, fault) in (0..requests).flat_map(|at| faults.map(|fault| (at, fault))) {
                steps.push(Step::by(world, format!("pass, {fault:?} at {at}"), false, |world| {
                    world.troubles -= 1;
                    *world = pass(world, Some((at, fault))).0;
                    world.judge()
                }));
            }
        }
        for change in world.possible_changes() {
            steps.push(Step::by(world, format!("{change:?}"), false, |world| {
                world.change(change);
                world.judge()
            }));
            for at in 1..requests {
                let event = format!("pass, {change:?} before {at}");
                steps.push(Step::by(world, event, false, |world| {
                    *world = pass(world, Some((at, Fault::Change(change)))).0;
                    world.judge()
                }));
            }
        }
        steps
    }

    fn at_rest(&self, world: &World) -> Result<(), String> {
        world.settled()
    }
}

/// Makes one pass; returns the world after it, and how many requests it sent.
fn pass(world: &World, fault: Option<(usize, Fault)>) -> (World, usize) {
    let agent = WorkAgent {
        cluster: "c".into(),
        hub_hash: "h".into(),
        agent_id: "h".into(),
        raw_limit: None,
    };
    let mut io = Connection::new(world.clone(), fault);
    let mut memory = WorkMemory { digests: world.digests(), ..WorkMemory::default() };
    match world.work() {
        Some(work) => {
            // After an error, the next pass follows anyway.
            let _ = reconcile(&mut io, &agent, &work, &mut memory);
        }
        None => {
            if let Some(record) = world.record() {
                let _ = match record.is_deleting() {
                    true => finalize(&mut io, &record, None).map(drop),
                    false => delete_record(&mut io, &record),
                };
            }
        }
    }
    io.end(memory.digests)
}

fn check(changes: u8, troubles: u8, executor: Option<bool>) {
    check_model(&WorkModel { changes, troubles, executor, lacks_patch: false });
}

fn check_model(model: &WorkModel) {
    let explored = explore(model);
    let WorkModel { changes, troubles, executor, .. } = model;
    println!("{changes} changes, {troubles} troubles, executor {executor:?}: {explored}");
    if let Some(violation) = explored.violation {
        panic!("{violation}");
    }
    assert!(explored.states > 100);
}

/// Explores two changes by others, or one change and one failed request; more with `MODEL=whole`.
#[test]
fn nothing_is_lost_left_or_deleted_without_reason() {
    let whole = std::env::var("MODEL").is_ok_and(|model| model == "whole");
    for (changes, troubles) in if whole { [(2, 1), (3, 0)] } else { [(1, 1), (2, 0)] } {
        check(changes, troubles, None);
    }
}

#[test]
fn executor_without_rights_has_nothing_written() {
    let whole = std::env::var("MODEL").is_ok_and(|model| model == "whole");
    for (changes, troubles) in if whole { vec![(2, 1), (3, 0)] } else { vec![(2, 0)] } {
        check(changes, troubles, Some(false));
    }
}

#[test]
fn agent_that_may_not_patch_updates() {
    let (changes, troubles, executor) = (1, 0, None);
    check_model(&WorkModel { changes, troubles, executor, lacks_patch: true });
}

/// A revert must remove what the edit may have added.
#[test]
fn digest_is_forgotten_at_an_edit_whose_answer_is_lost() {
    let mut world = World::new(1, 0, None);
    while pass(&world, None).0 != world {
        world = pass(&world, None).0;
    }
    let known = world.digests();
    world.change(Change::Edit(Spec::FirstEdited));
    let lost = |at| pass(&world, Some((at, Fault::AnswerLost))).0;
    let edited = (0..pass(&world, None).1).map(lost).find(|after| {
        after.objects["configmaps/a"]["data"]["k"] == "2" && after.digests().len() < 2
    });
    assert_eq!(known.len(), 2);
    assert!(edited.is_some_and(|after| after.digests().keys().all(|it| it.name == "b")));
}

/// Only the work says which objects are orphans.
#[test]
fn record_is_deleted_after_what_the_final_spec_orphans_is_given_up() {
    let mut world = World::new(2, 0, None);
    while pass(&world, None).0 != world {
        world = pass(&world, None).0;
    }
    world.change(Change::Edit(Spec::Orphan));
    world.change(Change::DeleteWork);
    for at in 0..pass(&world, None).1 {
        let after = pass(&world, Some((at, Fault::Killed))).0;
        let is_deleting = after.record().is_some_and(|record| record.is_deleting());
        assert!(!is_deleting || OBJECTS.iter().all(|key| !after.is_ours(key)), "killed at {at}");
    }
}

#[test]
fn world_is_judged() {
    let mut world = World::new(0, 0, None);
    world.put("configmaps/c", json!({"metadata": {"name": "c"}}));
    assert!(world.settled().is_err());
}
