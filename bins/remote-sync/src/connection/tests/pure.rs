//! Schedule, without server and clock.

use super::{super::schedule::Due, *};

const EXACT: f64 = 0.5;

fn schedule() -> (ProbeSchedule, Instant) {
    let now = Instant::now() + 1000 * SECOND;
    let mut schedule = ProbeSchedule::new(ProbeTiming::default());
    assert_eq!(schedule.due(now), Due::Wait(10 * SECOND), "without credentials");
    schedule.offered(now);
    (schedule, now)
}

fn connected() -> (ProbeSchedule, Instant) {
    let (mut schedule, now) = schedule();
    schedule.answered(now);
    (schedule, now)
}

/// TestReconcile.
#[test]
fn attempts_and_probes_wait_as_long_as_they_must() {
    let (mut schedule, now) = schedule();
    assert_eq!(schedule.due(now), Due::Connect, "never tried");
    schedule.failed(false, now, EXACT);
    assert_eq!(schedule.due(now), Due::Wait(30 * SECOND), "it failed");
    schedule.offered(now);
    assert_eq!(schedule.due(now), Due::Connect, "other credentials");
    schedule.answered(now);
    assert_eq!(schedule.due(now + SECOND), Due::Wait(9 * SECOND), "connected");
    schedule.offered(now);
    assert_eq!(schedule.due(now + SECOND), Due::Wait(9 * SECOND), "it has them already");
    let now = now + 10 * SECOND;
    assert_eq!(schedule.due(now), Due::Probe, "the interval");
    schedule.failed(true, now, EXACT);
    assert_eq!(schedule.due(now), Due::Wait(Duration::from_millis(1)), "refused");
    assert!(!schedule.connected);
    // The same credentials are rejected again.
    schedule.failed(true, now, EXACT);
    assert_eq!(schedule.due(now), Due::Wait(30 * SECOND));
}

#[test]
fn too_many_failures_end_a_connection_until_the_retry() {
    let (mut schedule, start) = connected();
    let mut now = start;
    while schedule.connected {
        let Due::Wait(wait) = schedule.due(now) else { panic!("due") };
        assert_eq!(wait, 10 * SECOND);
        now += wait;
        assert_eq!(schedule.due(now), Due::Probe);
        // Each takes five seconds.
        now += 5 * SECOND;
        schedule.failed(false, now, EXACT);
    }
    assert_eq!(now - start, 75 * SECOND, "cluster-api's own bound");
    assert_eq!(schedule.due(now), Due::Wait(30 * SECOND));
}

#[test]
fn retries_are_spread_by_a_fifth() {
    for (random, seconds) in [(0.0, 24.0), (0.5, 30.0), (1.0, 36.0)] {
        let (mut schedule, now) = schedule();
        schedule.failed(false, now, random);
        assert_eq!(schedule.due(now), Due::Wait(Duration::from_secs_f64(seconds)));
    }
}

#[test]
fn a_sign_of_life_undoes_a_failed_probe() {
    let (mut schedule, now) = connected();
    schedule.failed(false, now, EXACT);
    schedule.heard(now - SECOND);
    assert_eq!(schedule.failures, 1, "older than the probe");
    schedule.heard(now + 4 * SECOND);
    assert_eq!(schedule.failures, 0);
    assert_eq!(schedule.due(now + 5 * SECOND), Due::Wait(5 * SECOND), "which cluster it is");
}

#[test]
fn doubt_asks_for_a_probe_but_not_for_many() {
    let (mut schedule, now) = connected();
    let later = now + 6 * SECOND;
    assert!(schedule.doubt() && !schedule.doubt(), "sooner once");
    assert_eq!(schedule.due(later), Due::Probe);
    schedule.failed(false, later, EXACT);
    assert!(schedule.doubt());
    assert_eq!(schedule.due(later + SECOND), Due::Wait(4 * SECOND));
    assert!(!self::schedule().0.doubt(), "it is not connected");
}
