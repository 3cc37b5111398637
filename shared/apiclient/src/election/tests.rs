use super::*;
use crate::{api::LeaseSpec, resource::LEASES};

fn candidate(name: &str) -> Candidate {
    Candidate::new(name.to_owned(), TIMING)
}

fn claim(candidate: &Candidate, now: Instant) -> Option<Lease> {
    candidate.claim(&LEASES.object("ns", "x"), now, SystemTime::UNIX_EPOCH)
}

fn held_by(holder: &str, transitions: i32) -> Lease {
    let then = || Some("then".to_owned());
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: then(),
        renew_time: then(),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    };
    let mut lease = Lease { spec, ..lease::new("ns", "x") };
    lease.metadata.resource_version = Some("1".to_owned());
    lease
}

#[test]
fn acquires_where_there_is_none() {
    let lease = claim(&candidate("a"), Instant::now()).unwrap();
    assert_eq!(lease.metadata.resource_version, None);
    assert_eq!(lease.spec.holder_identity.as_deref(), Some("a"));
    assert_eq!(lease.spec.lease_transitions, Some(0));
    assert_eq!(lease.spec.lease_duration_seconds, Some(15));
}

#[test]
fn waits_for_the_observed_not_the_written_time_of_another() {
    let (mut a, start) = (candidate("a"), Instant::now());
    a.observe(Some(held_by("b", 3)), start);
    assert_eq!(a.follows_until(), Some(start + TIMING.lease));
    assert_eq!(claim(&a, start + Duration::from_secs(14)), None);
    // Only a changed record is a sign of life.
    let mut touched = held_by("b", 3);
    touched.metadata.resource_version = Some("2".to_owned());
    a.observe(Some(touched), start + Duration::from_secs(14));
    let lease = claim(&a, start + Duration::from_secs(15)).unwrap();
    assert_eq!(lease.metadata.resource_version.as_deref(), Some("2"));
    assert_eq!(lease.spec.lease_transitions, Some(4));
    assert_ne!(lease.spec.acquire_time.as_deref(), Some("then"));
}

#[test]
fn transitions_stay_within_their_field() {
    for (before, after) in [(i32::MAX, i32::MAX), (-5, 1)] {
        let (mut a, start) = (candidate("a"), Instant::now());
        let mut lease = held_by("b", before);
        lease.spec.holder_identity = None;
        a.observe(Some(lease), start);
        let lease = claim(&a, start).unwrap();
        assert_eq!(lease.spec.lease_transitions, Some(after));
    }
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let (mut a, start) = (candidate("a"), Instant::now());
    a.observe(Some(held_by("a", 1)), start);
    let released = a.released(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(released.spec.holder_identity.as_deref(), Some(""));
    assert_eq!(released.spec.lease_transitions, Some(1));
    let mut b = candidate("b");
    b.observe(Some(released), start);
    assert!(claim(&b, start).is_some());
    assert_eq!(b.released(SystemTime::UNIX_EPOCH), None);
}

#[test]
fn a_leader_renews_from_memory_and_keeps_its_acquire_time() {
    let (mut a, start) = (candidate("a"), Instant::now());
    a.observe(Some(held_by("a", 1)), start);
    a.renewed = Some(start);
    let lease = claim(&a, start).unwrap();
    assert_eq!(lease.spec.acquire_time.as_deref(), Some("then"));
    assert_eq!(lease.spec.lease_transitions, Some(1));
    assert_eq!(a.leads_until(), Some(start + TIMING.renew));
}

#[test]
fn others_wait_for_as_long_as_a_leader_is_certain() {
    let timing = ElectionTiming {
        lease: Duration::from_millis(2900),
        renew: Duration::from_millis(2800),
        retry: Duration::from_millis(100),
    };
    let (mut a, start) = (Candidate::new("a".to_owned(), timing), Instant::now());
    let lease = claim(&a, start).unwrap();
    a.record(&Ok(true), start, start);
    let mut b = candidate("b");
    b.observe(Some(lease), start);
    let last = a.leads_until().unwrap() - Duration::from_millis(1);
    assert_eq!(claim(&b, last), None);
}

#[test]
fn doubt_ends_leadership_only_when_its_time_is_over() {
    let (mut a, start) = (candidate("a"), Instant::now());
    let lost = || Err(Error::Unreachable("gone".into()));
    let later = |seconds| start + Duration::from_secs(seconds);
    a.record(&Ok(true), start, later(1));
    assert_eq!(a.leads_until(), Some(later(10)), "from the start of the attempt");
    a.record(&lost(), later(2), later(4));
    a.record(&lost(), later(6), later(9));
    assert_eq!(a.leads_until(), Some(later(10)));
    a.record(&lost(), later(9), later(10));
    assert_eq!(a.leads_until(), None);
    a.record(&Ok(true), later(20), later(20));
    a.record(&Ok(false), later(22), later(22));
    assert_eq!(a.leads_until(), None, "another one leads: at once");
}
