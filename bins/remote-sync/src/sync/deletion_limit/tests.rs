use std::time::Duration;

use super::*;

/// Whether the source is GONE, or else terminating.
const GONE: bool = true;
const WANTED: bool = false;
const GRACE: Duration = Duration::from_secs(300);
const MINUTE: Duration = Duration::from_secs(60);
const TOO_MANY: Result<(), Reason> = Err(Reason::TooMany);

fn limit(most: u32) -> DeletionLimit {
    of(GRACE, most, MINUTE * most)
}

fn of(grace: Duration, most: u32, within: Duration) -> DeletionLimit {
    DeletionLimit::new(OrphanSettings { grace: Some(grace), most, within })
}

fn pair(name: &str) -> Pair {
    Pair { kind: 0, key: name.into() }
}

/// The verdict about a pair of the first kind.
fn ask(limit: &mut DeletionLimit, name: &str, orphan: bool, now: Instant) -> Result<(), Reason> {
    ask_for(limit, &pair(name), orphan, now)
}

fn ask_for(limit: &mut DeletionLimit, of: &Pair, orphan: bool, now: Instant) -> Result<(), Reason> {
    limit.wait(of, None, now)?;
    limit.pass(of, false, orphan, now)
}

fn next_token(seconds: u64) -> Result<(), Reason> {
    Err(Reason::NextToken(Duration::from_secs(seconds)))
}

#[test]
fn a_target_without_a_source_stays_for_its_grace() {
    let (mut limit, start) = (limit(10), Instant::now());
    let later = |seconds| start + Duration::from_secs(seconds);
    let grace = |seconds| Err(Reason::GracePeriod(Duration::from_secs(seconds)));
    assert_eq!(ask(&mut limit, "a", GONE, start), grace(300));
    assert_eq!(ask(&mut limit, "a", GONE, later(299)), grace(1));
    assert_eq!(ask(&mut limit, "a", GONE, later(300)), Ok(()));
    limit.forget(&pair("a"));
    assert_eq!(ask(&mut limit, "a", GONE, later(301)), grace(300), "it was back");
    let other = Pair { kind: 1, ..pair("a") };
    assert_eq!(ask_for(&mut limit, &other, GONE, later(600)), grace(300));
    limit.restart_grace(0, later(900));
    assert_eq!(ask(&mut limit, "a", GONE, later(900)), grace(300), "its list was away");
    assert_eq!(ask_for(&mut limit, &other, GONE, later(900)), Ok(()), "the other's was not");
    assert_eq!(ask(&mut limit, "b", WANTED, later(900)), Ok(()));
}

#[test]
fn beyond_the_limit_all_stay() {
    let (mut limit, start) = (limit(10), Instant::now());
    let later = start + Duration::from_secs(3600);
    for name in 0..11 {
        assert!(ask(&mut limit, &name.to_string(), GONE, start).is_err());
    }
    for name in 0..11 {
        assert_eq!(ask(&mut limit, &name.to_string(), GONE, later), TOO_MANY);
    }
    assert_eq!(limit.waiting(), 11);
    limit.forget(&pair("10"));
    let grace = Err(Reason::GracePeriod(GRACE));
    assert_eq!(ask(&mut limit, "0", GONE, later), grace, "other sources may be back, too");
    assert_eq!(ask(&mut limit, "0", GONE, later + GRACE), Ok(()));
    let other = Pair { kind: 1, ..pair("0") };
    assert_eq!(ask_for(&mut limit, &other, WANTED, later), Ok(()), "kinds count apart");
}

#[test]
fn a_deletion_beyond_the_burst_waits_for_its_token() {
    let (mut limit, now) = (limit(2), Instant::now());
    for name in ["a", "b"] {
        assert_eq!(ask(&mut limit, name, WANTED, now), Ok(()));
        limit.forget(&pair(name));
    }
    assert_eq!(ask(&mut limit, "c", WANTED, now), next_token(60));
    assert_eq!(ask(&mut limit, "d", WANTED, now), next_token(60));
    assert_eq!(ask(&mut limit, "e", WANTED, now), TOO_MANY);
    assert_eq!(ask(&mut limit, "c", WANTED, now + MINUTE), TOO_MANY);
    limit.forget(&pair("e"));
    assert_eq!(ask(&mut limit, "c", WANTED, now + MINUTE), Ok(()));
    assert_eq!(ask(&mut limit, "d", WANTED, now + MINUTE), next_token(60));
}

#[test]
fn a_deletion_that_fails_keeps_its_token() {
    let (mut limit, now) = (limit(1), Instant::now());
    assert_eq!([(); 3].map(|()| ask(&mut limit, "a", WANTED, now)), [Ok(()); 3]);
    assert_eq!(ask(&mut limit, "b", WANTED, now), next_token(60), "only one waits");
}

#[test]
fn after_a_restart_there_is_one_token() {
    let start = Instant::now();
    for minutes in [0, 1] {
        let (mut limit, now) = (limit(10), start + minutes * MINUTE);
        let mut ask = |name: &str| {
            limit.wait(&pair(name), Some(start), now)?;
            limit.pass(&pair(name), false, WANTED, now)
        };
        assert_eq!(ask("a"), Ok(()));
        assert_eq!(ask("b").is_ok(), minutes == 1, "counted from the start");
        assert_eq!(ask("c"), next_token(60));
    }
}

#[test]
fn reconnected_cluster_lets_no_second_burst_pass() {
    let (mut limit, start) = (limit(10), Instant::now());
    for name in 0..21 {
        let _ = ask(&mut limit, &name.to_string(), WANTED, start);
    }
    let later = start + Duration::from_secs(3600);
    limit.restart_grace(0, later);
    for name in 10..21 {
        assert_eq!(ask(&mut limit, &name.to_string(), WANTED, later), TOO_MANY);
    }
}

#[test]
fn namespace_that_is_back_starts_the_grace_over() {
    let left = |grace| Err(Reason::GracePeriod(grace));
    // It is being deleted within the grace, or after that.
    for start in [Duration::ZERO, GRACE] {
        let (mut limit, now) = (limit(10), Instant::now());
        assert_eq!(ask(&mut limit, "a", GONE, now), left(GRACE), "nothing else is deleted");
        for orphan in [GONE, WANTED] {
            assert_eq!(limit.pass(&pair("a"), true, orphan, now + start), Err(Reason::Swept));
        }
        let later = now + 2 * GRACE;
        assert_eq!(ask(&mut limit, "a", GONE, later), left(GRACE));
        assert_eq!(ask(&mut limit, "a", GONE, later + MINUTE), left(GRACE - MINUTE));
        assert_eq!(ask(&mut limit, "a", GONE, later + GRACE), Ok(()));
    }
}
