use super::*;

const KIND: Counted = Some(KindIndex::FIRST);

fn gate(most: usize) -> DeletionGate {
    let (grace, within) = (Duration::from_secs(300), Duration::from_secs(600));
    DeletionGate::new(GateLimits { grace, most, within })
}

fn pair(name: &str) -> Pair {
    Pair { kind: KindIndex::FIRST, key: name.into() }
}

/// The gate's verdict about a pair of the first kind.
fn ask(gate: &mut DeletionGate, name: &str, reason: DeletionReason, now: Instant) -> GateVerdict {
    gate.ask(KIND, &name.into(), reason, now)
}

#[test]
fn a_target_without_a_source_stays_for_its_grace() {
    let (mut gate, start) = (gate(10), Instant::now());
    let later = |seconds| start + Duration::from_secs(seconds);
    let grace = |seconds| GateVerdict::Grace(Duration::from_secs(seconds));
    let gone = DeletionReason::SourceGone;
    assert_eq!(ask(&mut gate, "a", gone, start), grace(300));
    assert_eq!(ask(&mut gate, "a", gone, later(299)), grace(1));
    assert_eq!(ask(&mut gate, "a", gone, later(300)), GateVerdict::Open);
    gate.forget(&pair("a"), later(300));
    assert_eq!(ask(&mut gate, "a", gone, later(301)), grace(300), "it was back");
    gate.clear(later(301));
    assert_eq!(gate.waiting(), 0);
    assert_eq!(ask(&mut gate, "a", gone, later(900)), grace(300), "the cluster was away");
    assert_eq!(ask(&mut gate, "b", DeletionReason::Wanted, later(900)), GateVerdict::Open);
}

#[test]
fn a_returned_source_starts_the_grace_over() {
    let (mut gate, start) = (gate(1), Instant::now());
    let (later, gone) = (start + Duration::from_secs(300), DeletionReason::SourceGone);
    let grace = GateVerdict::Grace(Duration::from_secs(300));
    assert_eq!(ask(&mut gate, "a", gone, start), grace);
    gate.returned(&pair("a"), later);
    gate.returned(&pair("b"), later);
    assert_eq!((gate.waiting(), ask(&mut gate, "a", gone, later)), (0, grace));
    gate.sends(KIND, "a");
    gate.returned(&pair("a"), later);
    let held = GateVerdict::Held(GateHold::TooMany);
    assert_eq!(ask(&mut gate, "b", DeletionReason::Wanted, later), held);
}

#[test]
fn beyond_the_limit_all_stay_whatever_the_reason() {
    for reason in [DeletionReason::Wanted, DeletionReason::SourceGone] {
        let (mut gate, start) = (gate(10), Instant::now());
        let later = start + Duration::from_secs(3600);
        for name in 0..11 {
            ask(&mut gate, &name.to_string(), reason, start);
        }
        for name in 0..11 {
            let verdict = ask(&mut gate, &name.to_string(), reason, later);
            assert_eq!(verdict, GateVerdict::Held(GateHold::TooMany), "{reason:?}");
        }
        assert_eq!(gate.held(), (11, vec![GateHold::TooMany]));
        gate.forget(&pair("10"), later);
        assert_eq!(ask(&mut gate, "0", reason, later), GateVerdict::Open);
        let other = gate.ask(None, &"0".into(), DeletionReason::Wanted, later);
        assert_eq!(other, GateVerdict::Open, "namespaces count apart");
    }
}

#[test]
fn those_that_went_count_for_the_period() {
    let (mut gate, start) = (gate(1), Instant::now());
    let later = |seconds| start + Duration::from_secs(seconds);
    let held = GateVerdict::Held(GateHold::TooMany);
    assert_eq!(ask(&mut gate, "a", DeletionReason::Wanted, later(300)), GateVerdict::Open);
    gate.deleted(KIND, "a", later(300));
    assert_eq!(ask(&mut gate, "b", DeletionReason::Wanted, later(301)), held);
    assert_eq!(ask(&mut gate, "b", DeletionReason::Wanted, later(899)), held);
    assert_eq!(gate.waiting(), 1);
    assert_eq!(ask(&mut gate, "b", DeletionReason::Wanted, later(900)), GateVerdict::Open);
}

#[test]
fn what_goes_with_its_namespace_or_kind_waits_for_a_person() {
    for (reason, hold) in [
        (DeletionReason::NamespaceDeleted, GateHold::NamespaceDeleted),
        (DeletionReason::KindDeleted, GateHold::KindDeleted),
    ] {
        let (mut gate, now) = (gate(10), Instant::now());
        assert_eq!(ask(&mut gate, "a", reason, now), GateVerdict::Held(hold));
        gate.allow(1);
        assert_eq!(ask(&mut gate, "a", reason, now), GateVerdict::Open);
        assert_eq!(ask(&mut gate, "b", reason, now), GateVerdict::Held(hold), "one was allowed");
        assert_eq!((gate.allowed(), gate.recent(now)), (0, Vec::new()), "it is under way");
        gate.deleted(KIND, "a", now);
        assert_eq!((gate.allowed(), gate.recent(now)), (0, Vec::new()));
    }
}

#[test]
fn what_was_allowed_and_not_used_is_allowed_still() {
    let (mut gate, now) = (gate(0), Instant::now());
    gate.allow(1);
    assert_eq!(ask(&mut gate, "a", DeletionReason::Wanted, now), GateVerdict::Open);
    gate.forget(&pair("a"), now);
    assert_eq!(gate.allowed(), 1);
    assert_eq!(ask(&mut gate, "b", DeletionReason::Wanted, now), GateVerdict::Open);
    gate.clear(now);
    assert_eq!(gate.allowed(), 1);
}

#[test]
fn a_deletion_without_an_answer_counts_when_its_target_is_gone() {
    let (mut gate, now) = (gate(1), Instant::now());
    let wanted = DeletionReason::Wanted;
    assert_eq!(ask(&mut gate, "a", wanted, now), GateVerdict::Open);
    gate.forget(&pair("a"), now);
    assert_eq!(gate.recent(now), [], "it was not sent");
    assert_eq!(ask(&mut gate, "a", wanted, now), GateVerdict::Open);
    gate.sends(KIND, "a");
    gate.forget(&pair("a"), now);
    assert_eq!(gate.recent(now), [(KIND, Duration::ZERO, 1)]);
    assert_eq!(ask(&mut gate, "b", wanted, now), GateVerdict::Held(GateHold::TooMany));
}

#[test]
fn a_restart_forgets_nothing_that_counts() {
    let (mut before, start) = (gate(2), Instant::now() + Duration::from_secs(10_000));
    let later = |seconds| start + Duration::from_secs(seconds);
    for (name, at) in [("a", 0), ("b", 100)] {
        assert_eq!(ask(&mut before, name, DeletionReason::Wanted, later(at)), GateVerdict::Open);
        let count: usize = before.recent(later(at)).iter().map(|(_, _, number)| number).sum();
        assert_eq!(count, 1 + usize::from(name == "b"), "before it happens");
        before.deleted(KIND, name, later(at));
    }
    let mut after = gate(2);
    for (counted, age, number) in before.recent(later(200)) {
        after.restore(counted, age, number, later(200));
    }
    let held = GateVerdict::Held(GateHold::TooMany);
    assert_eq!(ask(&mut after, "c", DeletionReason::Wanted, later(599)), held);
    assert_eq!(ask(&mut after, "c", DeletionReason::Wanted, later(600)), GateVerdict::Open);
}

#[test]
fn times_without_end_are_no_trouble() {
    let now = Instant::now();
    let limits = GateLimits { grace: Duration::MAX, most: 1, within: Duration::MAX };
    let mut gate = DeletionGate::new(limits);
    let gone = DeletionReason::SourceGone;
    assert_eq!(ask(&mut gate, "a", gone, now), GateVerdict::Grace(Duration::MAX));
    gate.deleted(KIND, "a", now);
    let later = now + Duration::from_secs(365 * 24 * 3600);
    assert_eq!(ask(&mut gate, "b", gone, later), GateVerdict::Held(GateHold::TooMany));
    gate.restore(KIND, Duration::MAX, usize::MAX, now);
    assert_eq!(ask(&mut gate, "c", gone, later), GateVerdict::Held(GateHold::TooMany));
}
