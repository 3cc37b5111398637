use super::*;

const TIMEOUT: Duration = Duration::from_secs(600);
const HUBS: [&str; 3] = ["https://hub1:6443", "https://hub2:6443", "https://hub3:6443"];

/// A selection among three hubs, and what is known of them.
struct Bench {
    selection: HubSelection,
    seen: HubObservation,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        let seen = HubObservation {
            servers: HUBS.iter().map(|hub| Some((*hub).to_owned())).collect(),
            period: Duration::from_secs(60),
            ..HubObservation::default()
        };
        Self { selection: HubSelection::new(TIMEOUT, now), seen, now }
    }

    /// The one at `index` is selected, and a session with it has begun.
    fn connected(index: usize) -> Self {
        let mut bench = Self::new();
        bench.select(index);
        bench.seen.connected = true;
        assert!(bench.looks().is_err());
        bench.pass(Duration::from_secs(1));
        bench
    }

    fn select(&mut self, index: usize) {
        self.seen.selected = Some(HUBS[index].to_owned());
        self.seen.connected = false;
        self.seen.denied = false;
        self.selection.selected(self.now);
    }

    /// The Lease was renewed now.
    fn renews(&mut self) {
        self.seen.renewed = Some(self.now);
        self.seen.failing = false;
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// The occasion now, and the seconds until one otherwise.
    fn looks(&mut self) -> Result<Occasion, u64> {
        let next = self.selection.next(&self.seen, self.now);
        next.map_err(|at| (at - self.now).as_secs())
    }

    /// Time passes as a loop sees it, until there is an occasion.
    fn waits(&mut self) -> (Occasion, u64) {
        let begin = self.now;
        loop {
            if let Ok(occasion) = self.looks() {
                return (occasion, (self.now - begin).as_secs());
            }
            self.pass(Duration::from_secs(1));
            assert!(self.now < begin + 10 * TIMEOUT, "nothing happens");
        }
    }

    fn order(&self, occasion: Occasion) -> Vec<usize> {
        self.selection.begin(occasion, &self.seen).order
    }

    /// The index that is selected where the hubs answer so, and those that were asked.
    fn selects(
        &self,
        occasion: Occasion,
        verdicts: [HubVerdict; 3],
    ) -> (Option<usize>, Vec<usize>) {
        let mut asked = Vec::new();
        let round = self.selection.begin(occasion, &self.seen);
        let (found, others) = round.select(&mut |index, _| {
            asked.push(index);
            verdicts[index].clone()
        });
        let before = asked.len() - usize::from(found.is_some());
        assert_eq!(others.len(), before, "each other answer is kept for the log");
        (found, asked)
    }
}

fn credential(index: usize, valid: bool) -> Option<(String, bool)> {
    Some((HUBS[index].to_owned(), valid))
}

fn away() -> HubVerdict {
    HubVerdict::NoAnswer("away".into())
}

fn refused() -> HubVerdict {
    HubVerdict::Refused("no".into())
}

use HubVerdict::{NotAccepted as Denied, Valid};
use Occasion::{Joining, NotAccepted, Timeout, Unselected};

// --- bootstrapkubeconfigs.go, selectBootstrapKubeConfigs ---

#[test]
fn found_matched_bootstrap_kubeconfig_and_it_is_valid() {
    let mut bench = Bench::new();
    bench.seen.credential = credential(1, true);
    assert_eq!(bench.selects(Unselected, [Valid, Valid, Valid]), (Some(1), vec![1]));
}

#[test]
fn failed_to_check_matched_bootstrap_kubeconfig() {
    for verdict in [Denied, refused()] {
        let mut bench = Bench::new();
        bench.seen.credential = credential(1, true);
        let selected = bench.selects(Unselected, [Valid, verdict, Valid]);
        assert_eq!(selected, (Some(0), vec![1, 0]), "the first valid one, and none is asked twice");
    }
}

#[test]
fn the_first_available_bootstrap_kubeconfig_without_a_match() {
    for credential in [None, Some(("https://another".to_owned(), true))] {
        let mut bench = Bench::new();
        bench.seen.credential = credential;
        assert_eq!(bench.selects(Unselected, [away(), Valid, Valid]), (Some(1), vec![0, 1]));
    }
}

#[test]
fn a_missing_file_is_not_equal_and_not_asked() {
    let mut bench = Bench::new();
    bench.seen.servers[0] = None;
    bench.seen.credential = credential(0, true);
    assert_eq!(bench.selects(Unselected, [Valid, Valid, Valid]), (Some(1), vec![1]));
}

#[test]
fn no_bootstrap_kubeconfig_is_available() {
    let bench = Bench::new();
    assert_eq!(bench.selects(Unselected, [away(), Denied, refused()]), (None, vec![0, 1, 2]));
}

/// Upstream would leave it.
#[test]
fn restart_during_an_outage_leaves_it_to_the_timeout() {
    let mut bench = Bench::new();
    bench.seen.credential = credential(1, true);
    assert_eq!(bench.selects(Unselected, [Valid, away(), Valid]), (Some(1), vec![1]));
    bench.seen.credential = credential(1, false);
    assert_eq!(bench.selects(Unselected, [Valid, away(), Valid]), (Some(0), vec![1, 0]));
}

/// Upstream would ask another hub too.
#[test]
fn a_restart_goes_on_joining_the_hub_that_has_the_request() {
    let mut bench = Bench::new();
    bench.seen.joined = Some(HUBS[1].into());
    for credential in [None, credential(0, true)] {
        bench.seen.credential = credential;
        assert_eq!(bench.selects(Unselected, [Valid, Denied, Valid]), (Some(1), vec![1]));
        assert_eq!(bench.selects(Unselected, [Valid, away(), Valid]), (Some(0), vec![1, 0]));
        assert_eq!(bench.selects(Unselected, [Denied, away(), Valid]), (Some(2), vec![1, 0, 2]));
    }
}

#[test]
fn a_restart_during_a_renewal_is_a_restart_with_a_credential() {
    let mut bench = Bench::new();
    bench.seen.joined = Some(HUBS[1].into());
    bench.seen.credential = credential(1, true);
    assert_eq!(bench.selects(Unselected, [Valid, away(), Valid]), (Some(1), vec![1]));
    assert_eq!(bench.selects(Unselected, [Valid, Denied, Valid]), (Some(0), vec![1, 0]));
    bench.seen.credential = credential(1, false);
    assert_eq!(bench.selects(Unselected, [Valid, away(), Valid]), (Some(0), vec![1, 0]));
    assert_eq!(bench.selects(Unselected, [Valid, Denied, Valid]), (Some(1), vec![1]));
}

#[test]
fn hub_with_the_request_comes_before_that_of_the_credential() {
    let mut bench = Bench::new();
    bench.seen.joined = Some(HUBS[1].into());
    bench.seen.credential = credential(2, true);
    assert_eq!(bench.selects(Unselected, [Valid, away(), Valid]), (Some(2), vec![1, 2]));
    assert_eq!(bench.selects(Unselected, [Valid, away(), away()]), (Some(0), vec![1, 2, 0]));
}

// --- hub_accept_controller_test.go ---

#[test]
fn hub_that_denies_the_cluster_loses_the_selection() {
    let mut bench = Bench::connected(0);
    bench.renews();
    assert!(bench.looks().is_err(), "accepted");
    bench.pass(Duration::from_secs(1));
    bench.seen.denied = true;
    assert_eq!(bench.waits(), (NotAccepted, 5));
    assert_eq!(bench.selects(NotAccepted, [Denied, Valid, Valid]), (Some(1), vec![1]));
}

#[test]
fn a_mistake_that_is_taken_back_changes_nothing() {
    let mut bench = Bench::connected(0);
    bench.renews();
    bench.pass(Duration::from_secs(1));
    bench.seen.denied = true;
    assert_eq!(bench.looks(), Err(5));
    bench.seen.denied = false;
    bench.pass(Duration::from_secs(5));
    assert!(bench.looks().is_err());
    bench.seen.denied = true;
    assert_eq!(bench.looks(), Err(5), "from the start");
}

#[test]
fn approved_request_gives_a_minute_to_accept() {
    let mut bench = Bench::connected(0);
    bench.seen.denied = true;
    assert_eq!(bench.waits(), (NotAccepted, 59));
}

// --- hub_timeout_controller_test.go ---

#[test]
fn hub_that_takes_no_heartbeat_loses_the_selection() {
    let mut bench = Bench::connected(0);
    bench.pass(Duration::from_secs(60));
    bench.renews();
    assert_eq!(bench.looks(), Err(600), "not timeout");
    bench.seen.failing = true;
    assert_eq!(bench.waits(), (Timeout, 600));
    assert_eq!(bench.selects(Timeout, [Valid, Valid, Valid]), (Some(1), vec![1]));
}

/// The first of all times may be missing too.
#[test]
fn a_hub_that_never_took_a_heartbeat_has_the_same_time() {
    let mut bench = Bench::connected(0);
    bench.seen.failing = true;
    assert_eq!(bench.waits(), (Timeout, 599));
}

#[test]
fn lease_updater_is_timeout() {
    let mut bench = Bench::connected(0);
    bench.selection.timeout = Duration::from_secs(3);
    bench.pass(Duration::from_secs(1));
    bench.renews();
    bench.seen.failing = true;
    assert_eq!(bench.looks(), Err(3));
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.looks(), Err(1), "not timeout yet");
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.looks(), Ok(Timeout));
    bench.seen.failing = false;
    assert!(bench.looks().is_err(), "no renewal fails");
}

/// The timeout may be shorter than the time between two renewals.
#[test]
fn only_a_silence_of_the_timeout_counts() {
    for (timeout, period, left) in
        [(3, 60, 63), (60, 60, 120), (600, 60, 600), (600, 600, 1200), (600, 30, 600)]
    {
        let mut bench = Bench::connected(0);
        bench.selection.timeout = Duration::from_secs(timeout);
        bench.seen.period = Duration::from_secs(period);
        bench.renews();
        bench.pass(bench.seen.period);
        bench.seen.failing = true;
        assert!(bench.looks().is_err(), "one failure: {timeout} {period}");
        let mut silent =
            Bench { selection: bench.selection.clone(), seen: bench.seen.clone(), ..bench };
        assert_eq!(silent.waits(), (Timeout, left - period), "{timeout} {period}");
        bench.pass(Duration::from_secs(1));
        bench.renews();
        assert!(bench.looks().is_err(), "it was the only one: {timeout} {period}");
        bench.pass(bench.seen.period);
        bench.seen.failing = true;
        assert!(bench.looks().is_err(), "and so is this one: {timeout} {period}");
    }
}

#[test]
fn an_old_renewal_on_another_hub_counts_for_nothing() {
    let mut bench = Bench::connected(0);
    bench.pass(Duration::from_secs(1));
    bench.renews();
    bench.pass(Duration::from_secs(590));
    bench.select(1);
    bench.seen.connected = true;
    bench.seen.failing = true;
    assert_eq!(bench.looks(), Err(600));
}

#[test]
fn suspended_process_blames_no_hub() {
    let mut bench = Bench::connected(0);
    bench.renews();
    bench.pass(2 * TIMEOUT);
    assert!(bench.looks().is_err(), "no renewal has failed");
    bench.seen.failing = true;
    assert_eq!(bench.looks(), Err(60));
}

#[test]
fn hub_that_deleted_the_cluster_loses_the_selection() {
    let mut bench = Bench::connected(0);
    bench.renews();
    bench.seen.period = Duration::ZERO;
    assert_eq!(bench.waits(), (Timeout, 600));
}

// --- beyond upstream ---

#[test]
fn a_hub_that_is_joined_stays_while_it_answers() {
    let mut bench = Bench::new();
    bench.select(0);
    assert_eq!(bench.waits(), (Joining, 600));
    assert_eq!(bench.selects(Joining, [Denied, Valid, Valid]), (Some(0), vec![0]));
    assert_eq!(bench.selects(Joining, [away(), Valid, Valid]), (Some(1), vec![0, 1]));
    assert_eq!(bench.selects(Joining, [refused(), Denied, Valid]), (Some(2), vec![0, 1, 2]));
}

#[test]
fn a_hub_just_left_is_not_tried_before_the_others() {
    let mut bench = Bench::connected(0);
    assert_eq!(bench.order(Timeout), [1, 2, 0]);
    bench.select(1);
    assert_eq!(bench.order(NotAccepted), [2, 0, 1]);
    bench.select(2);
    assert_eq!(bench.order(Timeout), [0, 1, 2], "they take turns");
    bench.select(0);
    assert_eq!(bench.order(Timeout), [1, 2, 0]);
}

#[test]
fn a_better_hub_is_no_reason_to_leave() {
    let mut bench = Bench::connected(2);
    for _ in 0..100 {
        bench.renews();
        assert!(bench.looks().is_err());
        bench.pass(Duration::from_secs(60));
    }
}

#[test]
fn the_only_valid_one_may_be_the_one_that_was_left() {
    let bench = Bench::connected(0);
    assert_eq!(bench.selects(Timeout, [Valid, away(), Denied]), (Some(0), vec![1, 2, 0]));
}

#[test]
fn all_kubeconfigs_have_some_time_to_be_read() {
    let mut bench = Bench::new();
    bench.seen.unread = true;
    assert_eq!(bench.looks(), Err(10));
    bench.seen.unread = false;
    assert_eq!(bench.looks(), Ok(Unselected));
    bench.seen.unread = true;
    assert_eq!(bench.waits(), (Unselected, 10));
}

#[test]
fn without_a_result_it_rests() {
    let mut bench = Bench::new();
    bench.selection.rest(bench.now + Duration::from_secs(7));
    assert_eq!(bench.waits(), (Unselected, 7));
    let mut bench = Bench::connected(0);
    bench.selection.rest(bench.now + 2 * TIMEOUT);
    bench.seen.failing = true;
    assert_eq!(bench.waits(), (Timeout, 1200), "{:?}", bench.seen);
}

#[test]
fn two_kubeconfigs_of_one_hub_are_both_asked() {
    let mut bench = Bench::connected(0);
    bench.seen.servers[2] = Some(HUBS[0].to_owned());
    assert_eq!(bench.selects(Timeout, [refused(), away(), Valid]), (Some(2), vec![1, 2]));
}
