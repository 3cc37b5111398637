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
    client::{Client, RequestMetrics},
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
    runtime,
};

/// The lead, as far as this replica can be sure of it.
pub struct Leadership {
    state: Mutex<LeaderState>,
    stop: Stop,
    /// The name of the Lease, and the client; `None` for a single replica.
    election: Option<(String, Client)>,
    /// Closed when the thread of the election has ended.
    ended: Mutex<Receiver<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaderState {
    Unknown,
    Follows,
    Leads(Instant),
}

/// As in client-go.
const LEADER: Family = Family::gauge(
    "leader_election_master_status",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master.",
);

const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

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
        Self::new(LeaderState::Leads(Instant::now() + FOREVER), None, stop, channel().1)
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
        let (end, ended) = channel();
        let election = Some((name.to_owned(), client.clone()));
        let leadership = Self::new(LeaderState::Unknown, election, stop, ended);
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        runtime::spawn_with("election", &leadership, move |leadership| {
            leadership.stop.wait(delay);
            let target = LEASES.object(&namespace, &name);
            let candidate = Candidate::new(election::identity(), timing);
            election::run(&client, &target, candidate, &leadership.stop, &|candidate| {
                let (before, after) = leadership.record(candidate, Instant::now());
                log_change((before, after), candidate.holder(), &target, log_loss);
            });
            drop(end);
        })?;
        Ok(leadership)
    }

    fn new(
        state: LeaderState,
        election: Option<(String, Client)>,
        stop: &Stop,
        ended: Receiver<()>,
    ) -> Arc<Self> {
        let (state, ended) = (Mutex::new(state), Mutex::new(ended));
        Arc::new(Self { state, stop: stop.clone(), election, ended })
    }

    pub fn client(&self) -> Option<&Client> {
        self.election.as_ref().map(|(_, client)| client)
    }

    pub fn add_to(&self, metrics: &mut Metrics) {
        if let Some((name, _)) = &self.election {
            metrics.add(LEADER, &[("name", name)], u8::from(self.leads()));
        }
    }

    /// Returns whether this replica can be sure that it is the leader.
    pub fn leads(&self) -> bool {
        self.leads_until().is_some()
    }

    pub fn follows(&self) -> bool {
        *lock(&self.state) == LeaderState::Follows
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
        let left = Stop::GRACE_PERIOD.saturating_sub(self.stop.raised_for());
        let _ = lock(&self.ended).recv_timeout(left);
    }

    fn leads_until(&self) -> Option<Instant> {
        lock(&self.state).leads_until(Instant::now())
    }

    /// Records the result of an attempt; returns the state before it and after it. The beginning and the
    /// end of the lead wake all waiting threads, a renewal does not.
    fn record(&self, candidate: &Candidate, now: Instant) -> (LeaderState, LeaderState) {
        let after = match candidate.leads_until() {
            Some(until) => LeaderState::Leads(until),
            None if candidate.stands_by(now) => LeaderState::Follows,
            None => LeaderState::Unknown,
        };
        let before = std::mem::replace(&mut *lock(&self.state), after);
        if before.leads_until(now).is_some() != after.leads_until(now).is_some() {
            self.stop.wake();
        }
        (before, after)
    }
}

fn log_change(
    (before, after): (LeaderState, LeaderState),
    holder: &str,
    target: &Target<'_>,
    log_loss: fn(&Target<'_>),
) {
    match (before, after) {
        (LeaderState::Leads(_), LeaderState::Leads(_)) => return,
        (_, LeaderState::Leads(_)) => log_object!(Level::Info, target; "became the leader"),
        (LeaderState::Leads(_), _) => log_loss(target),
        _ => {}
    }
    if after == LeaderState::Follows && before != LeaderState::Follows {
        log_object!(Level::Info, target, leader = holder; "standing by");
    }
}

impl LeaderState {
    fn leads_until(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Leads(until) => Some(until).filter(|until| now < *until),
            Self::Unknown | Self::Follows => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn leading(until: Instant) -> Arc<Leadership> {
        Leadership::new(LeaderState::Leads(until), None, &Stop::default(), channel().1)
    }

    #[test]
    fn the_lead_ends_with_its_time_whoever_is_busy() {
        let now = Instant::now();
        let leadership = leading(now + Duration::from_millis(50));
        assert!(leadership.leads() && leadership.wait_until_leading());
        let lost = leadership.wait_until_lost().unwrap_err();
        assert_eq!(
            lost.to_string(),
            "lost leader election: the Lease could not be renewed in time"
        );
        assert!(now.elapsed() >= Duration::from_millis(50) && !leadership.leads());
    }

    #[test]
    fn the_lead_of_another_ends_it_at_once() {
        let leadership = leading(Instant::now() + Duration::from_secs(3600));
        let other = leadership.clone();
        let thread = std::thread::spawn(move || other.wait_until_lost());
        *lock(&leadership.state) = LeaderState::Follows;
        leadership.stop.wake();
        let lost = thread.join().unwrap().unwrap_err();
        assert_eq!(lost.to_string(), "lost leader election: another replica is the leader");
        assert!(leadership.follows());
    }

    #[test]
    fn one_that_is_alone_leads_until_it_is_asked_to_end() {
        let stop = Stop::default();
        let leadership = Leadership::without_election(&stop);
        assert!(leadership.leads() && leadership.wait_until_leading());
        stop.raise();
        assert_eq!(leadership.wait_until_lost(), Ok(()));
        leadership.wait_for_release();
    }

    #[test]
    fn only_a_change_wakes_those_who_wait() {
        let stop = Stop::default();
        let leadership = Leadership::new(LeaderState::Unknown, None, &stop, channel().1);
        let candidate = Candidate::new("a".to_owned(), election::TIMING);
        leadership.record(&candidate, Instant::now());
        assert_eq!(stop.wakes(), 0);
        *lock(&leadership.state) = LeaderState::Leads(Instant::now() + FOREVER);
        leadership.record(&candidate, Instant::now());
        assert_eq!(stop.wakes(), 1);
    }
}
