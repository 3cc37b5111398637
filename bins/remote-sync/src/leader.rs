//! Whether this replica is the one that works.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use shared::{
    client::Client,
    election::{self, Candidate},
    error::Result,
    flags::Flags,
    lock::lock,
    program,
    resource::LEASES,
    stop::Stop,
};

use crate::settings::Election;

/// The longest sleep in one piece.
const SLICE: Duration = Duration::from_secs(15);

/// What the election said last.
#[derive(Debug, Default)]
pub(crate) struct Leader(Mutex<Lead>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lead {
    #[default]
    Unknown,
    Follows,
    Leads,
}

impl Leader {
    /// For a replica that is alone.
    pub(crate) fn alone() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Lead::Leads)))
    }

    pub(crate) fn leads(&self) -> bool {
        *lock(&self.0) == Lead::Leads
    }

    /// Whether another one is known to lead.
    pub(crate) fn stands_by(&self) -> std::result::Result<(), String> {
        match *lock(&self.0) {
            Lead::Unknown => Err("it is not known who leads the replicas".into()),
            Lead::Follows | Lead::Leads => Ok(()),
        }
    }

    /// Takes part in the election; what it returns is closed when that has ended. A lead that is lost ends
    /// the process: what is under way here must not meet what the next leader does.
    ///
    /// # Errors
    /// `BadConfig` when the kubeconfig cannot be used.
    pub(crate) fn stand(
        self: &Arc<Self>,
        election: &Election,
        flags: &Flags,
        stop: &Stop,
    ) -> Result<Receiver<()>> {
        let Election { namespace, name, timing } = election.clone();
        // With its own time for a request: one that hangs must not cost the lead.
        let client = Client::of_own_cluster(flags, timing.renew / 2)?;
        let (end, ended) = channel();
        let (leader, stop) = (self.clone(), stop.clone());
        program::spawn("election", move || {
            let target = LEASES.object(&namespace, &name);
            let candidate = Candidate::new(election::identity(), timing);
            election::run(&client, &target, candidate, &stop, &|candidate| {
                let now = match candidate.leads_until() {
                    Some(_) => Lead::Leads,
                    None if candidate.stands_by(Instant::now()) => Lead::Follows,
                    None => Lead::Unknown,
                };
                match (std::mem::replace(&mut *lock(&leader.0), now), now) {
                    (Lead::Leads, Lead::Leads) => {}
                    (_, Lead::Leads) => log::info!("leads the replicas ({target})"),
                    (Lead::Leads, _) => {
                        log::warn!("leads the replicas no longer ({target}): the process ends");
                        stop.raise();
                    }
                    _ => {}
                }
                stop.wake();
            });
            drop(end);
        })?;
        Ok(ended)
    }

    /// Waits for the lead; `false` when asked to end.
    pub(crate) fn wait(&self, stop: &Stop) -> bool {
        loop {
            let seen = stop.wakes();
            if self.leads() {
                return true;
            }
            if stop.wait_for_change(seen, Instant::now() + SLICE) {
                return false;
            }
        }
    }
}
