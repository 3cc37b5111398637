//! Leadership: only one replica works at a time, and it knows when it has to stop. The election runs in a
//! thread of its own.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use log::Level;

use apiclient::{
    backoff::Backoff,
    client::{Client, RequestMetrics},
    controller,
    election::{self, Candidate, ElectionTiming, JITTER},
    error::{Error, Result},
    lock::lock,
    log_line::seconds,
    log_object,
    resource::{LEASES, Target},
    stop::Stop,
};

use crate::{
    client::own_cluster,
    flag_rows,
    flags::{Flag, Flags},
    metrics::{Family, Metrics},
    runtime,
};

/// The lead, as far as this replica can be sure of it.
pub struct Leadership {
    stop: Stop,
    /// `None` for a single replica.
    election: Option<Election>,
}

struct Election {
    /// Of the Lease.
    name: String,
    client: Client,
    timing: ElectionTiming,
    candidate: Mutex<Candidate>,
    /// Closed when its thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// As in client-go.
const LEADER: Family = Family::gauge(
    "leader_election_master_status",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master.",
);

/// Rows for the times of an election, with these defaults for the duration of the Lease, the deadline and the interval.
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

/// The times of an election, by client-go's rules (`tools/leaderelection/leaderelection.go`,
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
        return Err(
            "-leader-election-lease-duration must be at least 1s: a Lease counts seconds".into()
        );
    }
    if timing.lease <= timing.renew {
        return Err(
            "-leader-election-lease-duration must be longer than -leader-election-renew-deadline"
                .into(),
        );
    }
    if timing.renew <= timing.retry.mul_f64(JITTER) {
        return Err(format!(
            "-leader-election-renew-deadline must be longer than {JITTER} times -leader-election-retry-period"
        ));
    }
    Ok(timing)
}

impl Leadership {
    pub fn without_election(stop: &Stop) -> Arc<Self> {
        Arc::new(Self { stop: stop.clone(), election: None })
    }

    /// Starts the election by the Lease `namespace/name` after `delay`, until `stop` is raised; `log_loss` logs what
    /// pauses when the lead is lost.
    pub fn campaign(
        (namespace, name): (&str, &str),
        timing: ElectionTiming,
        delay: Duration,
        flags: &Flags,
        stop: &Stop,
        log_loss: fn(&Target<'_>),
    ) -> Result<Arc<Self>> {
        // Half of the deadline for a request leaves time for another one.
        let client = own_cluster(flags, timing.renew / 2, RequestMetrics::default())?;
        let candidate = Mutex::new(Candidate::new(election::identity(), timing));
        let (end, ended) = channel();
        let (name, ended) = (name.to_owned(), Mutex::new(ended));
        let election = Some(Election { name, client, timing, candidate, ended });
        let leadership = Arc::new(Self { stop: stop.clone(), election });
        let namespace = namespace.to_owned();
        runtime::spawn_with("election", &leadership, move |leadership| {
            leadership.stop.wait(delay);
            if let Some(election) = &leadership.election {
                let target = LEASES.object(&namespace, &election.name);
                election.run(&target, &leadership.stop, log_loss);
            }
            drop(end);
        })?;
        Ok(leadership)
    }

    pub fn client(&self) -> Option<&Client> {
        self.election.as_ref().map(|election| &election.client)
    }

    pub fn add_to(&self, metrics: &mut Metrics) {
        if let Some(election) = &self.election {
            metrics.add(LEADER, &[("name", &election.name)], u8::from(self.leads()));
        }
    }

    /// Returns whether this replica can be sure that it is the leader.
    pub fn leads(&self) -> bool {
        self.leads_until().is_some()
    }

    /// Returns whether another replica is known to lead.
    pub fn follows(&self) -> bool {
        let stands_by = |election: &Election| lock(&election.candidate).stands_by(Instant::now());
        self.election.as_ref().is_some_and(stands_by)
    }

    /// Waits for the lead; `false` at the end of the process.
    pub fn wait_until_leading(&self) -> bool {
        controller::run(&self.stop, || (!self.leads()).then(|| Instant::now() + Stop::SLICE));
        !self.stop.raised()
    }

    /// Waits while this replica is the leader, or until the end of the process. The time limit holds even
    /// while a request is pending: others take over when it has passed.
    pub fn wait_until_lost(&self) -> Result<()> {
        controller::run(&self.stop, || self.leads_until());
        let why = match self.follows() {
            _ if self.stop.raised() => return Ok(()),
            true => "another replica is the leader",
            false => "the Lease could not be renewed in time",
        };
        Err(Error::LeadLost(format!("lost leader election: {why}")))
    }

    /// Waits briefly for the Lease to be released, after `stop` was raised.
    pub fn wait_for_release(&self) {
        if let Some(election) = &self.election {
            let left = Stop::GRACE_PERIOD.saturating_sub(self.stop.raised_for());
            let _ = lock(&election.ended).recv_timeout(left);
        }
    }

    fn leads_until(&self) -> Option<Instant> {
        let now = Instant::now();
        match &self.election {
            Some(election) => lock(&election.candidate).leads_until(now),
            None => Some(now + Stop::SLICE),
        }
    }
}

impl Election {
    /// Takes part until `stop` is raised, then releases the Lease if it is ours.
    fn run(&self, target: &Target<'_>, stop: &Stop, log_loss: fn(&Target<'_>)) {
        let retry = self.timing.retry;
        let (mut backoff, mut stands_by) = (Backoff::new(retry), false);
        while !stop.raised() {
            let led = lock(&self.candidate).leads();
            let result = election::attempt(&self.client, target, &self.candidate);
            let candidate = lock(&self.candidate);
            let leads = candidate.leads();
            let stood_by = std::mem::replace(&mut stands_by, candidate.stands_by(Instant::now()));
            match (led, leads) {
                (false, true) => log_object!(Level::Info, target; "became the leader"),
                (true, false) => log_loss(target),
                _ => {}
            }
            if stands_by && !stood_by {
                log_object!(Level::Info, target, leader = candidate.holder(); "standing by");
            }
            drop(candidate);
            // A renewal wakes nobody.
            if led != leads {
                stop.wake();
            }
            // A leader keeps its pace.
            let jitter = if leads { 0.0 } else { JITTER * fastrand::f64() };
            stop.wait(pause(&mut backoff, target, result, retry + retry.mul_f64(jitter)));
        }
        if let Err(error) = election::release(&self.client, target, &self.candidate) {
            log_object!(Level::Debug, target, error:% = error; "the Lease is not released");
        }
    }
}

/// Logs the result of an attempt; returns the time until the next one, `wait` unless the server asks for more.
fn pause(
    backoff: &mut Backoff,
    target: &Target<'_>,
    result: Result<bool>,
    wait: Duration,
) -> Duration {
    match result {
        Ok(_) => {
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
            let retry = backoff.failed(&error, Instant::now(), 0.0);
            let (level, wait) = (retry.level(), wait.max(retry.wait));
            log_object!(
                level, target, error:% = error, retry_in = seconds(wait);
                "leader election is failing"
            );
            wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_alone_leads_until_it_is_asked_to_end() {
        let stop = Stop::default();
        let leadership = Leadership::without_election(&stop);
        assert!(leadership.leads() && !leadership.follows() && leadership.wait_until_leading());
        stop.raise();
        assert_eq!(leadership.wait_until_lost(), Ok(()));
        leadership.wait_for_release();
    }
}
