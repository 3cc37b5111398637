//! Leadership: one replica works at a time, and it knows when it must stop. The election has its own thread.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use log::Level;

use apiclient::{
    backoff::Backoff,
    client::Client,
    controller,
    election::{self, Candidate, ElectionTiming, JITTER},
    error::{Error, Result},
    lock::lock,
    log_object,
    resource::{LEASES, Target},
    stop::Stop,
};

use crate::{
    client::own_cluster,
    flag_rows,
    flags::{Flag, Flags},
    metrics::{Family, Metrics},
    runtime::{self, End},
};

/// Whether this replica leads.
pub struct Leadership {
    stop: Stop,
    standing: Mutex<Standing>,
    /// The name of the Lease, and the client for it; `None` for a single replica.
    election: Option<(String, Client)>,
    /// Raised at the end of the election, or with `stop` if there is none.
    released: Stop,
}

/// The result of the last attempt.
#[derive(Clone, Copy, Default)]
struct Standing {
    /// Until when this replica certainly leads.
    leads: Option<Instant>,
    /// Until when another replica holds the Lease.
    follows: Option<Instant>,
}

/// How long a single replica leads: longer than any process runs.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// As in client-go.
const LEADER: Family = Family::gauge(
    "leader_election_master_status",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master.",
);

/// The flags for the timing of an election, with these defaults.
pub fn flags([lease, renew, retry]: [&'static str; 3]) -> [Flag; 3] {
    flag_rows! {
        ["Replicas"]
        "leader-election-lease-duration" Duration lease =>
            "How long a leader that stops renewing keeps its Lease.";
        "leader-election-renew-deadline" Duration renew =>
            "How long the leader keeps trying to renew before it gives up.";
        "leader-election-retry-period" Duration retry =>
            "Interval between attempts to acquire or renew leadership.";
    }
}

/// The timing of an election, validated by client-go's rules (`tools/leaderelection/leaderelection.go`,
/// NewLeaderElector).
pub fn timing(flags: &Flags) -> std::result::Result<ElectionTiming, String> {
    let [lease, renew, retry] = [
        "leader-election-lease-duration",
        "leader-election-renew-deadline",
        "leader-election-retry-period",
    ]
    .map(|name| flags.period(name));
    let timing = ElectionTiming { lease: lease?, renew: renew?, retry: retry? };
    if timing.lease < Duration::from_secs(1) {
        Err("-leader-election-lease-duration must be at least 1s: a Lease counts seconds".into())
    } else if timing.lease <= timing.renew {
        let renew = "-leader-election-renew-deadline";
        Err(format!("-leader-election-lease-duration must be longer than {renew}"))
    } else if timing.renew <= timing.retry.mul_f64(JITTER) {
        let retry = format!("{JITTER} times -leader-election-retry-period");
        Err(format!("-leader-election-renew-deadline must be longer than {retry}"))
    } else {
        Ok(timing)
    }
}

/// Settings of an election.
pub struct Election<'a> {
    /// Namespace and name of the Lease.
    pub lease: (&'a str, &'a str),
    pub timing: ElectionTiming,
    /// How long to wait before the first attempt.
    pub delay: Duration,
}

/// Starts `election`, if any, and calls `work`, which must wait for the lead. After `work`, even after an error, raises
/// `stop` and waits until the leader has released its Lease.
pub fn run(
    election: Option<Election<'_>>,
    flags: &Flags,
    stop: &Stop,
    work: impl FnOnce(&Arc<Leadership>) -> Result<()>,
) -> Result<End> {
    let leadership = match election {
        Some(election) => Leadership::campaign(election, flags, stop)?,
        None => Leadership::without_election(stop),
    };
    let result = work(&leadership);
    stop.raise();
    leadership.released.wait(Stop::GRACE_PERIOD.saturating_sub(stop.raised_for()));
    result.map(|()| End::Stopped)
}

impl Leadership {
    fn without_election(stop: &Stop) -> Arc<Self> {
        let leads = Some(Instant::now() + FOREVER);
        let standing = Mutex::new(Standing { leads, follows: None });
        Arc::new(Self { stop: stop.clone(), standing, election: None, released: stop.clone() })
    }

    /// Starts the election, until `stop` is raised.
    fn campaign(election: Election<'_>, flags: &Flags, stop: &Stop) -> Result<Arc<Self>> {
        let Election { lease: (namespace, name), timing, delay } = election;
        // Half of the deadline, so that a request that hangs leaves time for another one.
        let client = own_cluster(flags, timing.renew / 2)?;
        let leadership = Arc::new(Self {
            stop: stop.clone(),
            standing: Mutex::default(),
            election: Some((name.to_owned(), client.clone())),
            released: Stop::default(),
        });
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        runtime::spawn_with("election", &leadership, move |leadership| {
            leadership.stop.wait(delay);
            leadership.take_part(&client, &LEASES.object(&namespace, &name), timing);
            leadership.released.raise();
        })?;
        Ok(leadership)
    }

    pub fn client(&self) -> Option<&Client> {
        self.election.as_ref().map(|(_, client)| client)
    }

    pub fn add_to(&self, metrics: &mut Metrics) {
        if let Some((name, _)) = &self.election {
            metrics.add(LEADER, &[("name", name)], u8::from(self.leads()));
        }
    }

    /// Returns whether this replica certainly leads.
    pub fn leads(&self) -> bool {
        self.leads_until().is_some()
    }

    /// Returns whether another replica leads, as far as known.
    pub fn follows(&self) -> bool {
        self.standing().follows.is_some_and(|until| Instant::now() < until)
    }

    /// Waits for the lead; returns `false` at the end of the process.
    pub fn wait_until_leading(&self) -> bool {
        controller::run(&self.stop, || (!self.leads()).then(|| Instant::now() + Stop::SLICE));
        !self.stop.raised()
    }

    /// Waits until this replica loses the lead, or until the end of the process. The lead ends in time even if a
    /// request hangs: another replica takes over then.
    pub fn wait_until_lost(&self) -> Result<()> {
        controller::run(&self.stop, || self.leads_until());
        let why = match self.follows() {
            _ if self.stop.raised() => return Ok(()),
            true => "another replica is the leader",
            false => "the Lease could not be renewed in time",
        };
        Err(Error::LeadLost(format!("lost leader election: {why}")))
    }

    fn leads_until(&self) -> Option<Instant> {
        self.standing().leads.filter(|until| Instant::now() < *until)
    }

    fn standing(&self) -> Standing {
        *lock(&self.standing)
    }

    /// Takes part in the election until the end of the process, then releases the Lease.
    fn take_part(&self, client: &Client, target: &Target<'_>, timing: ElectionTiming) {
        let retry = timing.retry;
        let mut candidate = Candidate::new(election::identity(), timing);
        let mut backoff = Backoff::new(retry);
        while !self.stop.raised() {
            let result = candidate.attempt(client, target);
            let leads = candidate.leads_until();
            let standing = Standing { leads, follows: candidate.follows_until() };
            let before = std::mem::replace(&mut *lock(&self.standing), standing);
            if before.leads.is_some() != leads.is_some() {
                match leads {
                    Some(_) => log_object!(Level::Info, target; "became the leader"),
                    None => log_object!(Level::Warn, target; "lost leader election"),
                }
                // Only for changes of the leader, not for each renewal.
                self.stop.wake();
            }
            if before.follows.is_none() && standing.follows.is_some() {
                log_object!(Level::Info, target, leader = candidate.holder(); "standing by");
            }
            // A leader renews without jitter.
            let jitter = if leads.is_some() { 0.0 } else { JITTER * fastrand::f64() };
            self.stop.wait(pause(&mut backoff, target, result, retry + retry.mul_f64(jitter)));
        }
        if let Err(error) = candidate.release(client, target) {
            log_object!(Level::Debug, target, error:% = error; "the Lease is not released");
        }
    }
}

/// Logs the result of an attempt; returns the time until the next one: `wait`, or more if the server asks for it.
fn pause(
    backoff: &mut Backoff,
    target: &Target<'_>,
    result: Result<()>,
    wait: Duration,
) -> Duration {
    match result {
        Ok(()) => {
            let failures = backoff.succeeded();
            if failures > 0 {
                log_object!(
                    Level::Info, target, failures = failures;
                    "leader election recovered"
                );
            }
            wait
        }
        Err(error) => {
            let mut retry = backoff.failed(&error, Instant::now(), 0.0);
            retry.wait = retry.wait.max(wait);
            retry.log("", target, &error, "leader election is failing");
            retry.wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_replica_leads_until_the_process_ends() {
        let stop = Stop::default();
        let leadership = Leadership::without_election(&stop);
        assert!(leadership.leads() && !leadership.follows() && leadership.wait_until_leading());
        stop.raise();
        assert_eq!(leadership.wait_until_lost(), Ok(()));
    }
}
