//! Whether this replica is the one that works: it takes part in the election in a thread of its own, and
//! whoever works under it knows the moment from which nobody may.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use crate::{
    client::Client,
    election::{self, Candidate, ElectionTiming},
    error::{Error, Result},
    flags::Flags,
    lock::lock,
    resource::LEASES,
    runtime,
    stop::Stop,
};

/// The longest sleep in one piece.
const SLICE: Duration = Duration::from_secs(15);
/// A leader gets this long to let go of its Lease when the process is asked to end.
const FAREWELL: Duration = Duration::from_millis(800);

/// The lead, as far as this replica can be sure of it.
#[derive(Debug)]
pub struct Leadership {
    standing: Mutex<LeaderState>,
    stop: Stop,
    /// Closed when the thread of the election has ended.
    ended: Mutex<Option<Receiver<()>>>,
}

/// What the election said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaderState {
    Unknown,
    Follows,
    Leads {
        /// `None` for a replica that is alone.
        until: Option<Instant>,
    },
}

impl Leadership {
    /// Of a replica that is alone.
    pub fn without_election(stop: &Stop) -> Arc<Self> {
        Self::new(LeaderState::Leads { until: None }, stop)
    }

    /// Stands for election by the Lease `namespace/name` of the cluster that this runs on, until `stop` is
    /// raised.
    ///
    /// # Errors
    /// `BadConfig` when its kubeconfig cannot be used, or the system gives no thread.
    pub fn campaign(
        (namespace, name): (&str, &str),
        timing: ElectionTiming,
        flags: &Flags,
        stop: &Stop,
    ) -> Result<Arc<Self>> {
        // With its own time for a request, so that there is time for another one.
        let client = Client::of_own_cluster(flags, timing.renew / 2)?;
        let leadership = Self::new(LeaderState::Unknown, stop);
        let (end, ended) = channel();
        *lock(&leadership.ended) = Some(ended);
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let follow = leadership.clone();
        runtime::spawn("election", move || {
            let target = LEASES.object(&namespace, &name);
            let candidate = Candidate::new(election::identity(), timing);
            election::run(&client, &target, candidate, &follow.stop, &|candidate| {
                let (before, now) = follow.learn(candidate, Instant::now());
                match (before, now) {
                    (LeaderState::Leads { .. }, LeaderState::Leads { .. }) => {}
                    (_, LeaderState::Leads { .. }) => log::info!("leads the replicas ({target})"),
                    (LeaderState::Unknown, LeaderState::Follows) => {
                        log::info!("stands by: {} leads ({target})", candidate.holder());
                    }
                    _ => {}
                }
            });
            drop(end);
        })?;
        Ok(leadership)
    }

    fn new(standing: LeaderState, stop: &Stop) -> Arc<Self> {
        let (standing, ended) = (Mutex::new(standing), Mutex::default());
        Arc::new(Self { standing, stop: stop.clone(), ended })
    }

    /// Whether this replica may be sure that it leads.
    pub fn leads(&self) -> bool {
        self.standing().leads(Instant::now())
    }

    /// Whether another replica is known to lead.
    pub fn follows(&self) -> bool {
        self.standing() == LeaderState::Follows
    }

    /// Waits for the lead; `false` when asked to end.
    pub fn wait_until_leading(&self) -> bool {
        loop {
            let seen = self.stop.wakes();
            if self.leads() {
                return true;
            }
            if self.stop.wait_for_change(seen, Instant::now() + SLICE) {
                return false;
            }
        }
    }

    /// Waits while this replica leads; returns when it is asked to end. The time is kept whatever becomes
    /// of a request meanwhile: others take the lead when it is over.
    ///
    /// # Errors
    /// `LeadLost` when another one leads, or may do so soon. What is under way here must not meet what the
    /// next leader does, so the process has to end.
    pub fn wait_until_lost(&self) -> Result<()> {
        loop {
            let seen = self.stop.wakes();
            let now = Instant::now();
            let until = match self.standing() {
                standing if !standing.leads(now) => {
                    let why = match standing {
                        LeaderState::Follows => "another replica leads",
                        _ => "the lead could not be renewed in time",
                    };
                    return Err(Error::LeadLost(format!("the lead is lost: {why}")));
                }
                LeaderState::Leads { until: Some(until) } => until.min(now + SLICE),
                _ => now + SLICE,
            };
            if self.stop.wait_for_change(seen, until) {
                return Ok(());
            }
        }
    }

    /// Waits a moment for the Lease to be let go of, after `stop` was `raised`.
    pub fn wait_for_release(&self, raised: Instant) {
        if let Some(ended) = lock(&self.ended).take() {
            let _ = ended.recv_timeout(FAREWELL.saturating_sub(raised.elapsed()));
        }
    }

    fn standing(&self) -> LeaderState {
        *lock(&self.standing)
    }

    /// Takes note of the election; returns how it stood before and stands now.
    fn learn(&self, candidate: &Candidate, now: Instant) -> (LeaderState, LeaderState) {
        let standing = match candidate.leads_until() {
            Some(until) => LeaderState::Leads { until: Some(until) },
            None if candidate.stands_by(now) => LeaderState::Follows,
            None => LeaderState::Unknown,
        };
        let before = std::mem::replace(&mut *lock(&self.standing), standing);
        if before != standing {
            self.stop.wake();
        }
        (before, standing)
    }
}

impl LeaderState {
    fn leads(self, now: Instant) -> bool {
        match self {
            Self::Leads { until } => until.is_none_or(|until| now < until),
            Self::Unknown | Self::Follows => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leading(until: Instant) -> Arc<Leadership> {
        Leadership::new(LeaderState::Leads { until: Some(until) }, &Stop::default())
    }

    #[test]
    fn the_lead_ends_with_its_time_whoever_is_busy() {
        let now = Instant::now();
        let leadership = leading(now + Duration::from_millis(50));
        assert!(leadership.leads() && leadership.wait_until_leading());
        let lost = leadership.wait_until_lost().unwrap_err();
        assert_eq!(lost.to_string(), "the lead is lost: the lead could not be renewed in time");
        assert!(now.elapsed() >= Duration::from_millis(50) && !leadership.leads());
    }

    #[test]
    fn the_lead_of_another_ends_it_at_once() {
        let leadership = leading(Instant::now() + Duration::from_secs(3600));
        let other = leadership.clone();
        let thread = std::thread::spawn(move || other.wait_until_lost());
        *lock(&leadership.standing) = LeaderState::Follows;
        leadership.stop.wake();
        let lost = thread.join().unwrap().unwrap_err();
        assert_eq!(lost.to_string(), "the lead is lost: another replica leads");
        assert!(leadership.follows());
    }

    #[test]
    fn one_that_is_alone_leads_until_it_is_asked_to_end() {
        let stop = Stop::default();
        let leadership = Leadership::without_election(&stop);
        assert!(leadership.leads() && leadership.wait_until_leading());
        stop.raise();
        assert_eq!(leadership.wait_until_lost(), Ok(()));
        leadership.wait_for_release(Instant::now());
    }
}
