//! What the threads know together: whether a Lease may be renewed now.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use shared::{election::Candidate, lock::lock, stop::Stop};

use crate::gate::Gate;

/// The longest sleep in one piece: a machine that slept itself is noticed this late.
const SLICE: Duration = Duration::from_secs(15);

/// Shared by all threads; a lock is never held across I/O.
pub(crate) struct World {
    pub(crate) stop: Stop,
    gate: Mutex<Gate>,
    election: Option<Mutex<Standing>>,
}

/// This replica's place in the election.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    leads_until: Option<Instant>,
    pub(crate) stands_by: bool,
}

impl World {
    /// A world whose gate follows a pod if it is `gated`, and a leader if one is `elected`.
    pub(crate) fn new(stop: Stop, gated: bool, elected: bool) -> Self {
        let gate = if gated { Gate::Closed("it was not seen yet".into()) } else { Gate::Open };
        Self { stop, gate: Mutex::new(gate), election: elected.then(Mutex::default) }
    }

    /// Whether a Lease may be renewed at `now`: the pod is well, and this replica leads if there is an
    /// election.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        *lock(&self.gate) == Gate::Open
            && self.standing().is_none_or(|standing| standing.leads(now))
    }

    /// Waits until then, or until something changes after `seen`; `true` when asked to end.
    pub(crate) fn rest(&self, seen: u64, until: Instant) -> bool {
        self.stop.wait_for_change(seen, until.min(Instant::now() + SLICE))
    }

    pub(crate) fn gate(&self) -> Gate {
        lock(&self.gate).clone()
    }

    /// Sets the gate; `true` if that changed anything.
    pub(crate) fn set_gate(&self, gate: Gate) -> bool {
        let before = std::mem::replace(&mut *lock(&self.gate), gate.clone());
        let changed = before != gate;
        if changed {
            self.stop.wake();
        }
        changed
    }

    /// This replica's place, if there is an election.
    pub(crate) fn standing(&self) -> Option<Standing> {
        self.election.as_ref().map(|standing| *lock(standing))
    }

    /// Takes note of how the election stands; returns how it stood before and stands now.
    pub(crate) fn set_standing(&self, candidate: &Candidate, now: Instant) -> (Standing, Standing) {
        let leads_until = candidate.leads_until();
        let standing = Standing { leads_until, stands_by: candidate.stands_by(now) };
        let Some(election) = &self.election else { return (standing, standing) };
        let before = std::mem::replace(&mut *lock(election), standing);
        if before.leads(now) != standing.leads(now) {
            self.stop.wake();
        }
        (before, standing)
    }
}

impl Standing {
    /// Whether this replica may be sure at `now` that it leads.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.leads_until.is_some_and(|until| now < until)
    }

    /// Whether it led when it last looked.
    pub(crate) fn led(&self) -> bool {
        self.leads_until.is_some()
    }
}
