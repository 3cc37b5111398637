//! Breadth-first search of a model's states. The trace to the first broken invariant is a shortest one. A state from
//! which a quiet world never reaches a valid rest is found after all others.
//!
//! Only 64-bit fingerprints are kept: with ten million states, the chance of a collision is about 1 in 400,000. A trace
//! is reconstructed by repeating its steps.

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    mem,
    time::{Duration, Instant},
};

/// A world whose states are all to be explored.
pub trait Model {
    /// Everything that decides what can happen next.
    type State: Clone + Hash;
    /// What happened, for the trace.
    type Event: fmt::Debug;

    /// Returns the initial states.
    fn starts(&self) -> Vec<Self::State>;

    /// Returns everything that can happen next, always in the same order.
    fn steps(&self, state: &Self::State) -> Vec<Step<Self::State, Self::Event>>;

    /// Checks a state without a calm step.
    ///
    /// # Errors
    /// Why the world must not come to rest in this state.
    fn at_rest(&self, state: &Self::State) -> Result<(), String>;
}

/// One possible step.
pub struct Step<S, E> {
    /// What happens.
    pub event: E,
    /// Whether it also happens in a quiet world. There, the first calm step of a state is taken.
    pub calm: bool,
    /// The next state, or the broken invariant.
    pub result: Result<S, String>,
}

impl<S: Clone, E> Step<S, E> {
    /// Returns the step that `change` makes.
    pub fn by(
        state: &S,
        event: E,
        calm: bool,
        change: impl FnOnce(&mut S) -> Result<(), String>,
    ) -> Self {
        let mut state = state.clone();
        let result = change(&mut state).map(|()| state);
        Self { event, calm, result }
    }
}

/// The outcome of a request that a process in the model sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is sent, and its answer arrives.
    Answered,
    /// It does not reach the server.
    NotSent,
    /// The server handled it, but its answer is lost.
    AnswerLost,
    /// The process is killed after sending it, before the answer.
    Killed,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The number of distinct states.
    pub states: usize,
    /// The number of steps between them.
    pub steps: usize,
    /// The longest of all shortest distances from an initial state, in steps.
    pub depth: usize,
    /// The duration of the search.
    pub took: Duration,
    /// The first broken invariant.
    pub violation: Option<Violation>,
}

/// A broken invariant, and a trace that leads to it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The invariant.
    pub what: String,
    /// The events that lead to it.
    pub trace: Vec<String>,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, steps, depth, took, .. } = self;
        write!(f, "{states} states, {steps} steps, depth {depth}, {:.1} s", took.as_secs_f64())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after", self.what)?;
        self.trace
            .iter()
            .enumerate()
            .try_for_each(|(at, event)| writeln!(f, "{:4} {event}", at + 1))
    }
}

/// Explores all states of `model`, or stops at the first violation.
pub fn explore<M: Model>(model: &M) -> Explored {
    let began = Instant::now();
    let mut search = Search { model, known: HashMap::new(), seen: Vec::new(), steps: 0 };
    let (depth, mut violation) = search.layers();
    if violation.is_none() {
        violation = search.restless();
    }
    let (states, steps) = (search.seen.len(), search.steps);
    Explored { states, steps, depth, took: began.elapsed(), violation }
}

/// No state.
const NONE: u32 = u32::MAX;

/// What is kept of a state.
struct Seen {
    fingerprint: u64,
    parent: u32,
    /// The next state in a quiet world.
    calm: u32,
}

struct Search<'a, M: Model> {
    model: &'a M,
    known: HashMap<u64, u32>,
    seen: Vec<Seen>,
    steps: usize,
}

impl<M: Model> Search<'_, M> {
    /// Explores layer by layer; returns the depth, and the first violation.
    fn layers(&mut self) -> (usize, Option<Violation>) {
        let mut layer = Vec::new();
        for state in self.model.starts() {
            self.meet(state, NONE, &mut layer);
        }
        let mut depth = 0;
        while !layer.is_empty() {
            let mut next = Vec::new();
            for (index, state) in mem::take(&mut layer) {
                if let Some(violation) = self.visit(index, &state, &mut next) {
                    return (depth, Some(violation));
                }
            }
            depth += usize::from(!next.is_empty());
            layer = next;
        }
        (depth, None)
    }

    /// Explores all steps from a state.
    fn visit(
        &mut self,
        index: u32,
        state: &M::State,
        next: &mut Vec<(u32, M::State)>,
    ) -> Option<Violation> {
        for Step { event, calm, result } in self.model.steps(state) {
            self.steps += 1;
            let to = match result {
                Ok(to) => self.meet(to, index, next),
                Err(what) => return Some(self.violation(what, index, Some(&event))),
            };
            if calm && self.seen[index as usize].calm == NONE {
                self.seen[index as usize].calm = to;
            }
        }
        if self.seen[index as usize].calm == NONE
            && let Err(what) = self.model.at_rest(state)
        {
            return Some(self.violation(what, index, None));
        }
        None
    }

    /// Returns the number of a state; also adds a new one to `layer`.
    fn meet(&mut self, state: M::State, parent: u32, layer: &mut Vec<(u32, M::State)>) -> u32 {
        let fingerprint = fingerprint(&state);
        let new = u32::try_from(self.seen.len()).unwrap_or(NONE);
        let index = *self.known.entry(fingerprint).or_insert(new);
        if index == new {
            self.seen.push(Seen { fingerprint, parent, calm: NONE });
            layer.push((new, state));
        }
        index
    }

    /// Returns the first state from which a quiet world never comes to rest.
    fn restless(&self) -> Option<Violation> {
        // The number of the walk that visited each state.
        let mut walks = vec![NONE; self.seen.len()];
        for start in 0..self.seen.len() as u32 {
            let mut at = start;
            while at != NONE && walks[at as usize] == NONE {
                walks[at as usize] = start;
                at = self.seen[at as usize].calm;
            }
            if at != NONE && walks[at as usize] == start {
                let mut violation = self.violation("a quiet world never rests".into(), at, None);
                violation.trace.push("and from here round and round:".into());
                violation.trace.extend(self.round(at));
                return Some(violation);
            }
        }
        None
    }

    /// Returns the events of a cycle of calm steps.
    fn round(&self, start: u32) -> Vec<String> {
        let (mut at, mut state, mut events) = (start, self.replay(start).1, Vec::new());
        while let Some(step) = state.take() {
            let calm = self.model.steps(&step).into_iter().find(|step| step.calm);
            let Some(Step { event, result, .. }) = calm else { break };
            events.push(format!("{event:?}"));
            at = self.seen[at as usize].calm;
            state = result.ok().filter(|_| at != start);
        }
        events
    }

    fn violation(&self, what: String, index: u32, last: Option<&M::Event>) -> Violation {
        let mut trace = self.replay(index).0;
        trace.extend(last.map(|event| format!("{event:?}")));
        Violation { what, trace }
    }

    /// Repeats the steps to a state; returns their events, and the state.
    fn replay(&self, index: u32) -> (Vec<String>, Option<M::State>) {
        let (mut way, mut at) = (Vec::new(), index);
        while at != NONE {
            way.push(self.seen[at as usize].fingerprint);
            at = self.seen[at as usize].parent;
        }
        let first = way.pop();
        let starts = self.model.starts().into_iter();
        let mut state = starts.into_iter().find(|state| Some(fingerprint(state)) == first);
        let mut events = Vec::new();
        for wanted in way.into_iter().rev() {
            let steps = state.iter().flat_map(|state| self.model.steps(state));
            let found = steps
                .filter_map(|step| Some((step.event, step.result.ok()?)))
                .find(|(_, to)| fingerprint(to) == wanted);
            state = found.map(|(event, to)| {
                events.push(format!("{event:?}"));
                to
            });
        }
        (events, state)
    }
}

fn fingerprint<S: Hash>(state: &S) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two jugs of three and five liters, as in every textbook.
    struct Jugs {
        /// The amount in the second jug that is a violation.
        forbidden: u8,
        /// A quiet world empties the first jug, or pours back and forth forever.
        empties: bool,
    }

    impl Model for Jugs {
        type State = (u8, u8);
        type Event = &'static str;

        fn starts(&self) -> Vec<(u8, u8)> {
            vec![(0, 0)]
        }

        fn steps(&self, &(three, five): &(u8, u8)) -> Vec<Step<(u8, u8), &'static str>> {
            let (over, back) = (three.min(5 - five), five.min(3 - three));
            let quiet = |event| match (self.empties, event) {
                (true, "empty three") => three > 0,
                (false, "pour over" | "pour back") => true,
                _ => false,
            };
            [
                ("fill three", (3, five)),
                ("fill five", (three, 5)),
                ("empty three", (0, five)),
                ("empty five", (three, 0)),
                ("pour over", (three - over, five + over)),
                ("pour back", (three + back, five - back)),
            ]
            .map(|(event, to)| {
                let result = if to.1 == self.forbidden { Err("forbidden".into()) } else { Ok(to) };
                Step { event, calm: quiet(event), result }
            })
            .into()
        }

        fn at_rest(&self, state: &(u8, u8)) -> Result<(), String> {
            if state.0 == 0 { Ok(()) } else { Err("the first is not empty".into()) }
        }
    }

    #[test]
    fn a_violation_is_found_on_the_shortest_way() {
        let found = explore(&Jugs { forbidden: 4, empties: true }).violation.unwrap();
        let way = ["fill five", "pour back", "empty three", "pour back", "fill five", "pour back"];
        assert_eq!(
            (&*found.what, found.trace),
            ("forbidden", way.map(|e| format!("{e:?}")).into())
        );
    }

    #[test]
    fn every_state_is_seen_once() {
        let explored = explore(&Jugs { forbidden: 6, empties: true });
        assert!(explored.violation.is_none());
        assert_eq!((explored.states, explored.steps), (16, 96));
    }

    #[test]
    fn a_world_without_rest_is_found_with_its_circle() {
        let found = explore(&Jugs { forbidden: 6, empties: false }).violation.unwrap();
        assert_eq!(found.what, "a quiet world never rests");
        assert!(found.trace.iter().any(|event| event.starts_with("and from here")));
    }
}
