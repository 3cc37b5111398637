//! Model of the schedule: every order of outages, refusals, credentials, doubts and answers between attempts and
//! probes, up to a number of troubles. Time is that of the schedule, which always is `now`.

use std::env;

use explorer::{Model, Step, explore};

use super::{super::schedule::Due, *};

/// An invariant holds, or not.
type Held = std::result::Result<(), String>;

/// The shortest wait between two attempts of a limited connection.
const LEAST_RETRY: f64 = 0.8;

/// By then the schedule knows the server.
const LONGEST: Duration = Duration::from_secs(600);

/// A server, and the schedule of its connection.
#[derive(Clone, Hash)]
struct World {
    server: ServerState,
    schedule: ProbeSchedule,
    /// Since the last attempt to connect, and what came of it.
    attempt: Option<(Duration, ServerState)>,
    /// Since the last probe.
    probe: Option<Duration>,
    /// For how long the world has been quiet.
    quiet: Duration,
    troubles: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ServerState {
    Up,
    Down,
    /// It answers 401.
    Refusing,
}

/// The rules under test: the real `due`, or a broken one.
struct Schedule {
    due: fn(&ProbeSchedule, Instant) -> Due,
    now: Instant,
    troubles: u8,
}

impl World {
    fn pass(&mut self, time: Duration) {
        self.schedule.age(time);
        let passed = |since: Duration| (since + time).min(Duration::from_secs(3600));
        self.attempt = self.attempt.map(|(since, state)| (passed(since), state));
        self.probe = self.probe.map(passed);
    }

    fn probe(&mut self, now: Instant, random: f64) {
        match self.server {
            ServerState::Up => self.schedule.answered(now),
            state => drop(self.schedule.failed(state == ServerState::Refusing, now, random)),
        }
    }
}

impl Schedule {
    /// Takes the next step that is due, if there is one.
    fn act(&self, world: &mut World, random: f64) -> Held {
        let timing = ProbeTiming::default();
        match (self.due)(&world.schedule, self.now) {
            Due::Wait(time) => {
                world.quiet += time;
                world.pass(time);
            }
            Due::Connect => {
                let least = timing.retry.mul_f64(LEAST_RETRY);
                if world.attempt.is_some_and(|it| it.0 < least && it.1 == ServerState::Down) {
                    return Err("a dead server is tried again too soon".into());
                }
                world.attempt = Some((Duration::ZERO, world.server));
                world.probe(self.now, random);
            }
            Due::Probe => {
                if world.probe.is_some_and(|since| since < timing.interval / 2) {
                    return Err("a server is probed too often".into());
                }
                world.probe = Some(Duration::ZERO);
                world.probe(self.now, random);
            }
        }
        Ok(())
    }

    fn is_settled(&self, world: &World) -> bool {
        let waits =
            matches!((self.due)(&world.schedule, self.now), Due::Wait(time) if time > SECOND);
        waits && world.schedule.connected == (world.server == ServerState::Up)
    }
}

impl Model for Schedule {
    type State = World;
    type Event = String;

    fn starts(&self) -> Vec<World> {
        let mut schedule = ProbeSchedule::new(ProbeTiming::default());
        schedule.offered(self.now);
        let world = |server| World {
            server,
            schedule: schedule.clone(),
            attempt: None,
            probe: None,
            quiet: Duration::ZERO,
            troubles: self.troubles,
        };
        [ServerState::Up, ServerState::Down, ServerState::Refusing].map(world).into()
    }

    fn steps(&self, world: &World) -> Vec<Step<World, String>> {
        let mut steps = Vec::new();
        let mut step = |calm: bool, event: String, change: &dyn Fn(&mut World) -> Held| {
            steps.push(Step::by(world, event, calm, |next| {
                if !calm {
                    (next.troubles, next.quiet) = (next.troubles - 1, Duration::ZERO);
                }
                change(next)
            }));
        };
        let due = (self.due)(&world.schedule, self.now);
        if !self.is_settled(world) && world.quiet < LONGEST {
            step(true, format!("{due:?}"), &|world| self.act(world, 0.0));
        }
        if world.troubles == 0 {
            return steps;
        }
        step(false, format!("{due:?}, with other jitter"), &|world| self.act(world, 0.999));
        if let Due::Wait(time) = due {
            step(false, format!("half of {time:?} passes"), &|world| {
                world.pass(time / 2);
                Ok(())
            });
        }
        for server in [ServerState::Up, ServerState::Down, ServerState::Refusing] {
            step(false, format!("the server is {server:?}"), &|world| {
                world.server = server;
                Ok(())
            });
        }
        step(false, "credentials are offered".into(), &|world| {
            world.schedule.offered(self.now);
            // With these it was not tried.
            world.attempt = None;
            Ok(())
        });
        step(false, "a request gets no answer".into(), &|world| {
            world.schedule.doubt();
            Ok(())
        });
        if world.server == ServerState::Up {
            step(false, "a request is answered".into(), &|world| {
                world.schedule.heard(self.now);
                Ok(())
            });
        }
        steps
    }

    fn at_rest(&self, world: &World) -> Held {
        match self.is_settled(world) {
            true => Ok(()),
            false => Err("it rests without knowing the server".into()),
        }
    }
}

fn schedule(due: fn(&ProbeSchedule, Instant) -> Due, troubles: u8) -> Schedule {
    Schedule { due, now: Instant::now() + Duration::from_secs(1_000_000), troubles }
}

#[test]
fn every_way_ends_knowing_the_server_and_pesters_none() {
    let whole = env::var("MODEL").is_ok_and(|part| part == "whole");
    let troubles = if whole { 7 } else { 4 };
    let explored = explore(&schedule(ProbeSchedule::due, troubles));
    println!("schedule, {troubles} troubles: {explored}");
    if let Some(violation) = explored.violation {
        panic!("{violation}");
    }
}

#[test]
fn schedules_without_waits_or_probes_are_found() {
    fn hasty(schedule: &ProbeSchedule, now: Instant) -> Due {
        match schedule.due(now) {
            Due::Wait(_) if !schedule.connected => Due::Connect,
            due => due,
        }
    }
    fn blind(schedule: &ProbeSchedule, now: Instant) -> Due {
        match schedule.due(now) {
            Due::Probe => Due::Wait(60 * SECOND),
            due => due,
        }
    }
    for (due, what) in [
        (hasty as fn(&ProbeSchedule, Instant) -> Due, "tried again too soon"),
        (blind, "rests without knowing"),
    ] {
        let violation = explore(&schedule(due, 2)).violation.unwrap();
        println!("{violation}");
        assert!(violation.what.contains(what) && violation.trace.len() <= 16, "{violation}");
    }
}
