use super::*;

const KIND: Counted = Some(KindIndex::FIRST);
const GRACE: Duration = Duration::from_secs(300);
const MINUTE: Duration = Duration::from_secs(60);
const TOO_MANY: GateVerdict = GateVerdict::Held(GateHold::TooMany);

fn gate(most: u32) -> DeletionGate {
    let within = MINUTE * most;
    DeletionGate::new(GateLimits { grace: GRACE, most, within })
}

fn pair(name: &str) -> Pair {
    Pair { kind: KindIndex::FIRST, key: name.into() }
}

/// The gate's verdict about a pair of the first kind.
fn ask(gate: &mut DeletionGate, name: &str, reason: DeletionReason, now: Instant) -> GateVerdict {
    gate.ask((KIND, &name.into()), reason, false, now)
}

fn next_token(seconds: u64) -> GateVerdict {
    GateVerdict::Held(GateHold::NextToken(Duration::from_secs(seconds)))
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
    gate.forget(&pair("a"));
    assert_eq!(ask(&mut gate, "a", gone, later(301)), grace(300), "it was back");
    gate.restart_grace(later(900));
    assert_eq!(ask(&mut gate, "a", gone, later(900)), grace(300), "the cluster was away");
    assert_eq!(ask(&mut gate, "b", DeletionReason::Wanted, later(900)), GateVerdict::Open);
}

#[test]
fn beyond_the_limit_all_stay() {
    let (mut gate, start) = (gate(10), Instant::now());
    let (later, gone) = (start + Duration::from_secs(3600), DeletionReason::SourceGone);
    for name in 0..11 {
        ask(&mut gate, &name.to_string(), gone, start);
    }
    for name in 0..11 {
        assert_eq!(ask(&mut gate, &name.to_string(), gone, later), TOO_MANY);
    }
    assert_eq!(gate.held(), (11, vec![GateHold::TooMany]));
    gate.forget(&pair("10"));
    assert_eq!(ask(&mut gate, "0", gone, later), GateVerdict::Open);
    let other = gate.ask((None, &"0".into()), DeletionReason::Wanted, false, later);
    assert_eq!(other, GateVerdict::Open, "namespaces count apart");
}

#[test]
fn a_deletion_beyond_the_burst_waits_for_its_token() {
    let (mut gate, now, wanted) = (gate(2), Instant::now(), DeletionReason::Wanted);
    for name in ["a", "b"] {
        assert_eq!(ask(&mut gate, name, wanted, now), GateVerdict::Open);
    }
    assert_eq!(ask(&mut gate, "a", wanted, now), GateVerdict::Open, "a retry needs no token");
    assert_eq!(ask(&mut gate, "c", wanted, now), next_token(60));
    assert_eq!((gate.waiting(), gate.held()), (3, (0, Vec::new())), "it needs nobody");
    assert_eq!(ask(&mut gate, "d", wanted, now), next_token(60));
    assert_eq!(ask(&mut gate, "e", wanted, now), TOO_MANY);
    assert_eq!(ask(&mut gate, "c", wanted, now + MINUTE), TOO_MANY);
    gate.forget(&pair("e"));
    assert_eq!(ask(&mut gate, "c", wanted, now + MINUTE), GateVerdict::Open);
    assert_eq!(ask(&mut gate, "d", wanted, now + MINUTE), next_token(60));
}

#[test]
fn a_deletion_that_was_forgotten_keeps_its_token() {
    let (mut gate, now, wanted) = (gate(1), Instant::now(), DeletionReason::Wanted);
    assert_eq!(ask(&mut gate, "a", wanted, now), GateVerdict::Open);
    gate.forget(&pair("a"));
    assert_eq!(ask(&mut gate, "a", wanted, now), next_token(60), "it may have happened");
}

#[test]
fn a_token_cuts_no_grace_short() {
    let (mut gate, now) = (gate(1), Instant::now());
    assert_eq!(ask(&mut gate, "a", DeletionReason::Wanted, now), GateVerdict::Open);
    let gone = DeletionReason::SourceGone;
    assert_eq!(ask(&mut gate, "a", gone, now + MINUTE), GateVerdict::Grace(GRACE - MINUTE));
    assert_eq!(ask(&mut gate, "a", gone, now + GRACE), GateVerdict::Open);
}

#[test]
fn after_a_restart_there_is_one_token() {
    let (mut gate, now, wanted) = (gate(10), Instant::now(), DeletionReason::Wanted);
    let mut ask = |name: &str, at| gate.ask((KIND, &name.into()), wanted, true, at);
    assert_eq!([ask("a", now), ask("b", now)], [GateVerdict::Open, next_token(60)]);
    assert_eq!(ask("b", now + MINUTE), GateVerdict::Open);
}

#[test]
fn what_goes_with_its_namespace_or_kind_waits_in_any_case() {
    for (reason, hold) in [
        (DeletionReason::NamespaceDeleted, GateHold::NamespaceDeleted),
        (DeletionReason::KindDeleted, GateHold::KindDeleted),
    ] {
        let (mut gate, now) = (gate(10), Instant::now());
        assert_eq!(ask(&mut gate, "a", DeletionReason::Wanted, now), GateVerdict::Open);
        assert_eq!(ask(&mut gate, "a", reason, now), GateVerdict::Held(hold));
        assert_eq!(gate.held(), (1, vec![hold]));
    }
}

#[test]
fn times_without_end_are_no_trouble() {
    let now = Instant::now();
    let limits = GateLimits { grace: Duration::MAX, most: 1, within: Duration::MAX };
    let mut gate = DeletionGate::new(limits);
    let (gone, later) = (DeletionReason::SourceGone, now + 365 * 24 * 60 * MINUTE);
    assert_eq!(ask(&mut gate, "a", gone, now), GateVerdict::Grace(Duration::MAX));
    assert_eq!(ask(&mut gate, "b", gone, later), TOO_MANY);
}

#[test]
fn reconnected_cluster_lets_no_second_burst_pass() {
    let (mut gate, start) = (gate(10), Instant::now());
    for name in 0..21 {
        ask(&mut gate, &name.to_string(), DeletionReason::Wanted, start);
    }
    let later = start + Duration::from_secs(3600);
    gate.restart_grace(later);
    for name in 10..21 {
        assert_eq!(ask(&mut gate, &name.to_string(), DeletionReason::Wanted, later), TOO_MANY);
    }
}

#[test]
fn namespace_that_is_back_starts_the_grace_over() {
    let (mut gate, start) = (gate(10), Instant::now());
    let (later, gone) = (start + 2 * GRACE, DeletionReason::SourceGone);
    ask(&mut gate, "a", gone, start);
    ask(&mut gate, "a", gone, start + GRACE);
    ask(&mut gate, "a", DeletionReason::NamespaceDeleted, start + GRACE);
    assert_eq!(ask(&mut gate, "a", gone, later), GateVerdict::Open, "it has its token");
    let hold = gate.hold(KIND, "a");
    assert_eq!(hold, Some(GateHold::NamespaceDeleted), "the Namespace was not read again");
    gate.forget(&pair("a"));
    assert_eq!(ask(&mut gate, "a", gone, later), GateVerdict::Grace(GRACE));
}
