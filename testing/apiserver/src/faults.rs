//! Injected faults: the installed rules, and the state of the whole server.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use fastrand::Rng;

use crate::{
    gate::{Gate, State},
    lock::lock,
    rules::{Action, Attributes, Rule},
    target::Target,
};

struct Installed {
    id: u64,
    rule: Rule,
    hits: u32,
    random: Rng,
}

impl Installed {
    /// Decides whether the rule applies this time; counts a hit.
    fn strikes(&mut self) -> bool {
        if self.rule.times.is_some_and(|times| self.hits >= times) {
            return false;
        }
        let hit = self.rule.probability.is_none_or(|it| self.random.f64() < it);
        self.hits += u32::from(hit);
        hit
    }
}

#[derive(Default)]
struct Rules {
    installed: Vec<Installed>,
    last: u64,
}

/// The callback for changes of the server's state.
type Hook = Box<dyn Fn(State) + Send + Sync>;

/// The faults of one server. Cheap to clone; clones share everything.
#[derive(Clone, Default)]
pub struct Faults(Arc<Settings>);

#[derive(Default)]
struct Settings {
    rules: Mutex<Rules>,
    gate: Gate,
    hook: Mutex<Option<Hook>>,
    date_offset: AtomicI64,
}

impl Faults {
    /// Adds a rule and returns its id. Rules are tried in order; the first that applies wins.
    pub fn add(&self, rule: Rule) -> u64 {
        let mut rules = lock(&self.0.rules);
        rules.last += 1;
        let id = rules.last;
        let random = Rng::with_seed(rule.seed);
        rules.installed.push(Installed { id, rule, hits: 0, random });
        id
    }

    /// Forbids a verb on a resource (an empty namespace means all namespaces).
    pub fn deny(&self, verb: &str, resource: &str, namespace: &str) -> u64 {
        let rule = Rule::new(Action::Forbid).verb(verb).resource(resource);
        self.add(if namespace.is_empty() { rule } else { rule.namespace(namespace) })
    }

    /// Removes a rule.
    pub fn remove(&self, id: u64) {
        lock(&self.0.rules).installed.retain(|installed| installed.id != id);
    }

    /// Returns the number of requests that a rule has applied to.
    pub fn hits(&self, id: u64) -> u32 {
        let rules = lock(&self.0.rules);
        rules.installed.iter().find(|installed| installed.id == id).map_or(0, |one| one.hits)
    }

    /// Removes all rules; the state of the server stays.
    pub fn clear(&self) {
        lock(&self.0.rules).installed.clear();
    }

    /// Sets the state of the whole server; returns once it is in effect.
    pub fn set_state(&self, state: State) {
        self.0.gate.set(state);
        if let Some(hook) = lock(&self.0.hook).as_ref() {
            hook(state);
        }
    }

    /// Shifts the `Date` header by this many seconds.
    pub fn set_date_offset(&self, seconds: i64) {
        self.0.date_offset.store(seconds, Relaxed);
    }

    /// Returns to normal: no rules, no date shift, state up.
    pub fn heal(&self) {
        self.clear();
        self.set_date_offset(0);
        self.set_state(State::Up);
    }

    pub(crate) fn date_offset(&self) -> i64 {
        self.0.date_offset.load(Relaxed)
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    pub(crate) fn on_state(&self, hook: Option<Hook>) {
        *lock(&self.0.hook) = hook;
    }

    /// Returns the delay and the action for a request.
    pub(crate) fn strike(
        &self,
        path: &str,
        target: &Target,
        user: &str,
    ) -> (Duration, Option<Action>) {
        let resource = if target.resource.is_empty() { path } else { &target.resource };
        let attributes = Attributes { verb: target.verb, resource, target, user };
        let mut delay = Duration::ZERO;
        for installed in &mut lock(&self.0.rules).installed {
            if !installed.rule.matches(&attributes) || !installed.strikes() {
                continue;
            }
            match &installed.rule.action {
                Action::Delay { milliseconds } => delay += Duration::from_millis(*milliseconds),
                action => return (delay, Some(action.clone())),
            }
        }
        (delay, None)
    }

    /// Returns whether a rule would forbid the request; counts no hit.
    pub(crate) fn forbids(&self, verb: &str, target: &Target, user: &str) -> bool {
        let attributes = Attributes { verb, resource: &target.resource, target, user };
        let rules = lock(&self.0.rules);
        let mut rules = rules.installed.iter().map(|installed| &installed.rule);
        rules.any(|rule| rule.action == Action::Forbid && rule.matches(&attributes))
    }
}
