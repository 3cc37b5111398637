//! Schedule, without server and clock.

use super::{
    super::schedule::{Due, ProbeOutcome, ProbeVerdict, remaining, soonest},
    *,
};

const EXACT: f64 = 0.5;

fn schedule() -> (ProbeSchedule, Instant) {
    (ProbeSchedule::new(ProbeTiming::default()), Instant::now() + 1000 * SECOND)
}

fn connected() -> (ProbeSchedule, Instant) {
    let (mut schedule, now) = schedule();
    schedule.connected(now);
    (schedule, now)
}

/// TestShouldRequeue.
#[test]
fn the_rest_of_an_interval_is_waited_for() {
    let now = Instant::now() + 100 * SECOND;
    let left = |last: Option<u32>, interval| {
        remaining(now, last.map(|ago| now - ago * SECOND), interval * SECOND)
    };
    assert_eq!(left(None, 20), None);
    assert_eq!(left(Some(5), 20), Some(15 * SECOND));
    assert_eq!(left(Some(20), 20), None);
    assert_eq!(left(Some(60), 20), None);
}

/// TestMinDurationOrDefault.
#[test]
fn the_shortest_duration_or_the_default_counts() {
    let hour = 3600 * SECOND;
    assert_eq!(soonest(None, 10 * SECOND), 10 * SECOND);
    assert_eq!(soonest([], 10 * SECOND), 10 * SECOND);
    assert_eq!(soonest([5 * SECOND, 10 * SECOND], 10 * SECOND), 5 * SECOND);
    assert_eq!(soonest([5 * hour, 10 * hour], 10 * SECOND), 5 * hour);
}

/// TestReconcile.
#[test]
fn attempts_and_probes_wait_as_long_as_they_must() {
    let (mut schedule, now) = schedule();
    assert_eq!(schedule.due(now), Due::Connect, "never tried");
    schedule.connect_failed(false, now, EXACT);
    assert_eq!(schedule.due(now), Due::Wait(30 * SECOND), "it failed");
    schedule.offered();
    assert_eq!(schedule.due(now + SECOND), Due::Wait(29 * SECOND), "still limited");
    let now = now + 30 * SECOND;
    assert_eq!(schedule.due(now), Due::Connect, "the retry");
    schedule.connected(now);
    assert_eq!(schedule.due(now), Due::Wait(10 * SECOND), "connected");
    assert_eq!(schedule.due(now + SECOND), Due::Wait(9 * SECOND), "connected");
    let now = now + 10 * SECOND;
    assert_eq!(schedule.due(now), Due::Probe, "the interval");
    schedule.probed(ProbeOutcome::Success, now, EXACT);
    assert_eq!(
        (schedule.due(now), schedule.failures()),
        (Due::Wait(10 * SECOND), 0),
        "a good probe"
    );
    schedule.probed(ProbeOutcome::Unauthorized, now, EXACT);
    assert_eq!(schedule.due(now), Due::Wait(Duration::from_millis(1)), "refused");
    assert!(!schedule.is_connected());
    // The same credentials are rejected again.
    schedule.connect_failed(true, now, EXACT);
    assert_eq!(schedule.due(now), Due::Wait(30 * SECOND));
}

/// TestHealthCheck.
#[test]
fn a_probe_counts_by_its_outcome() {
    let verdict = |too_many, unauthorized| ProbeVerdict { too_many, unauthorized };
    for (outcome, before, expected, failures) in [
        (ProbeOutcome::Unauthorized, 0, verdict(false, true), 1),
        (ProbeOutcome::Failure, 0, verdict(false, false), 1),
        (ProbeOutcome::Failure, 4, verdict(true, false), 5),
        (ProbeOutcome::Success, 0, verdict(false, false), 0),
        (ProbeOutcome::Success, 4, verdict(false, false), 0),
        (ProbeOutcome::Unauthorized, 4, verdict(true, true), 5),
    ] {
        let (mut schedule, now) = connected();
        for _ in 0..before {
            schedule.probed(ProbeOutcome::Failure, now, EXACT);
        }
        assert_eq!(schedule.probed(outcome, now + SECOND, EXACT), expected);
        assert_eq!(schedule.failures(), failures, "{outcome:?} after {before}");
        assert_eq!(schedule.last_probe(), Some(now + SECOND));
        let success = if outcome == ProbeOutcome::Success { now + SECOND } else { now };
        assert_eq!(schedule.last_success(), Some(success));
        assert_eq!(schedule.is_connected(), expected == verdict(false, false));
    }
    let (mut schedule, now) = schedule();
    assert_eq!(schedule.probed(ProbeOutcome::Failure, now, EXACT), verdict(false, false));
    assert_eq!((schedule.failures(), schedule.last_probe()), (0, None), "not connected");
}

#[test]
fn too_many_failures_end_a_connection_until_the_retry() {
    let (mut schedule, start) = connected();
    let mut now = start;
    while schedule.is_connected() {
        let Due::Wait(wait) = schedule.due(now) else { panic!("due") };
        assert_eq!(wait, 10 * SECOND);
        now += wait;
        assert_eq!(schedule.due(now), Due::Probe);
        // Each takes five seconds.
        now += 5 * SECOND;
        schedule.probed(ProbeOutcome::Failure, now, EXACT);
    }
    assert_eq!(now - start, 75 * SECOND, "cluster-api's own bound");
    assert_eq!(schedule.due(now), Due::Wait(30 * SECOND));
    schedule.offered();
    assert_eq!(schedule.due(now), Due::Connect, "connecting did not fail");
}

#[test]
fn retries_are_spread_by_a_fifth() {
    for (random, seconds) in [(0.0, 24.0), (0.5, 30.0), (1.0, 36.0)] {
        let (mut schedule, now) = schedule();
        schedule.connect_failed(false, now, random);
        assert_eq!(schedule.due(now), Due::Wait(Duration::from_secs_f64(seconds)));
    }
}

#[test]
fn other_credentials_are_tried_at_once_after_a_refusal() {
    let (mut schedule, now) = schedule();
    schedule.connect_failed(true, now, EXACT);
    schedule.offered();
    assert_eq!(schedule.due(now), Due::Connect);
}

#[test]
fn a_sign_of_life_is_as_good_as_a_probe() {
    let (mut schedule, now) = connected();
    schedule.probed(ProbeOutcome::Failure, now, EXACT);
    schedule.heard(now - SECOND);
    assert_eq!(schedule.failures(), 1, "older than the probe");
    schedule.heard(now + 4 * SECOND);
    assert_eq!((schedule.failures(), schedule.last_success()), (0, Some(now + 4 * SECOND)));
    assert_eq!(schedule.due(now + 5 * SECOND), Due::Wait(9 * SECOND));
    schedule.disconnected(now);
    schedule.heard(now + 6 * SECOND);
    assert_eq!(schedule.last_success(), Some(now + 4 * SECOND), "of a connection that is over");
}

#[test]
fn doubt_asks_for_a_probe_but_not_for_many() {
    let (mut schedule, now) = connected();
    schedule.heard(now + 9 * SECOND);
    let later = now + 10 * SECOND;
    assert!(schedule.doubt(later) && !schedule.doubt(later), "news once");
    assert_eq!(schedule.due(later), Due::Probe, "though something was heard a second ago");
    schedule.probed(ProbeOutcome::Failure, later, EXACT);
    assert!(schedule.doubt(later + SECOND));
    assert_eq!(schedule.due(later + SECOND), Due::Wait(4 * SECOND));
    schedule.heard(later + 2 * SECOND);
    assert_eq!(schedule.due(later + 2 * SECOND), Due::Wait(10 * SECOND), "all is well again");
    let (mut down, now) = self::schedule();
    assert!(!down.doubt(now), "known");
}
