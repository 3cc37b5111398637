use super::*;

const TIMEOUT: Duration = Duration::from_secs(600);

/// A hub that was selected and connected to, and the seconds since then.
struct Bench {
    timer: HubTimer,
    hub: HubStatus,
    start: Instant,
    now: u64,
}

impl Bench {
    fn connected(timeout: Duration, period: u64) -> Self {
        let start = Instant::now();
        let selected = Some("https://hub1:6443".to_owned());
        let period = Duration::from_secs(period);
        let hub = HubStatus { selected, connected: true, period, ..HubStatus::default() };
        Self { timer: HubTimer::new(timeout, start), hub, start, now: 0 }
    }

    fn at(&self) -> Instant {
        self.start + Duration::from_secs(self.now)
    }

    /// The second in which another hub is selected, as of second `now`.
    fn due(&mut self, now: u64) -> Option<u64> {
        self.now = now;
        let due = self.timer.due(&self.hub, self.at())?;
        Some(due.duration_since(self.start).as_secs())
    }

    /// A heartbeat arrives in second `now`.
    fn renews(&mut self, now: u64) {
        self.now = now;
        (self.hub.renewed, self.hub.failing) = (Some(self.at()), false);
        assert_eq!(self.due(now), None, "the hub works");
    }
}

#[test]
fn hub_without_heartbeats_is_left_after_the_timeout() {
    let mut bench = Bench::connected(TIMEOUT, 60);
    assert_eq!(bench.due(0), Some(600), "none arrived at all");
    bench.renews(60);
    assert_eq!(bench.due(2000), None, "the process was suspended");
    bench.hub.failing = true;
    assert_eq!(bench.due(2000), Some(2060));
    bench.renews(2030);
    bench.hub.failing = true;
    assert_eq!(bench.due(2090), Some(2630));
}

/// The timeout may be shorter than the time between two heartbeats.
#[test]
fn single_failure_is_never_the_timeout() {
    for (timeout, period, due) in
        [(3, 60, 64), (60, 60, 121), (600, 60, 601), (600, 600, 1201), (600, 30, 601)]
    {
        let mut bench = Bench::connected(Duration::from_secs(timeout), period);
        bench.due(0);
        bench.renews(1);
        bench.hub.failing = true;
        assert_eq!(bench.due(1 + period), Some(due), "{timeout} {period}");
        bench.renews(2 + period);
    }
}

#[test]
fn heartbeat_on_another_hub_counts_for_nothing() {
    let mut bench = Bench::connected(TIMEOUT, 60);
    bench.due(0);
    bench.renews(10);
    bench.now = 700;
    bench.timer.selected(bench.at());
    (bench.hub.connected, bench.hub.failing) = (false, true);
    assert_eq!(bench.due(700), Some(1300), "joining");
    bench.hub.connected = true;
    assert_eq!(bench.due(800), Some(1400));
}

#[test]
fn hub_that_denies_the_cluster_is_left_after_5_s() {
    let mut bench = Bench::connected(TIMEOUT, 60);
    bench.hub.denied = true;
    assert_eq!(bench.due(1), Some(61), "people accept a cluster after its request");
    bench.hub.denied = false;
    bench.due(2);
    bench.renews(3);
    bench.hub.denied = true;
    assert_eq!(bench.due(10), Some(15));
    assert_eq!(bench.due(14), Some(15));
    bench.hub.denied = false;
    assert_eq!(bench.due(14), None);
    bench.hub.denied = true;
    assert_eq!(bench.due(20), Some(25), "it was a mistake the first time");
}

#[test]
fn without_selection_all_sources_have_10_s() {
    let mut bench = Bench::connected(TIMEOUT, 60);
    bench.hub = HubStatus { unread: true, ..HubStatus::default() };
    assert_eq!(bench.due(1), Some(10));
    bench.hub.unread = false;
    assert_eq!(bench.due(1), Some(1));
}

#[test]
fn order_is_request_credential_others_and_selected() {
    let servers = ["hub1", "hub2", "hub3"].map(|server| Some(server.to_owned()));
    let cases = [
        (None, [None, None], vec![0, 1, 2]),
        (None, [None, Some("hub2")], vec![1, 0, 2]),
        (None, [Some("hub3"), Some("hub2")], vec![2, 1, 0]),
        (None, [Some("unknown"), Some("hub1")], vec![0, 1, 2]),
        (Some("hub2"), [None, None], vec![2, 0, 1]),
        (Some("hub2"), [Some("hub2"), None], vec![1, 2, 0]),
    ];
    for (selected, first, expected) in cases {
        assert_eq!(order(&servers, selected, first), expected, "{selected:?} {first:?}");
    }
    let one = Some("hub1".to_owned());
    assert_eq!(order(&[None, one.clone()], None, [None, None]), [1], "no valid kubeconfig");
    assert_eq!(order(&[one.clone(), one], Some("hub1"), [None, None]), [1, 0], "two of one hub");
}

#[test]
fn joined_hub_may_deny_and_used_hub_may_be_silent() {
    let (refused, silent) =
        (HubAnswer::Refused("no".into()), HubAnswer::Unreachable("away".into()));
    for (answer, [other, joining, used, both]) in [
        (HubAnswer::Valid, [true; 4]),
        (HubAnswer::NotAccepted, [false, true, false, false]),
        (silent, [false, false, true, true]),
        (refused, [false; 4]),
    ] {
        assert_eq!(answer.will_do(false, false), other, "{answer}");
        assert_eq!(answer.will_do(true, false), joining, "{answer}");
        assert_eq!(answer.will_do(false, true), used, "{answer}");
        assert_eq!(answer.will_do(true, true), both, "{answer}");
    }
}
