//! Lease objects: their content at creation and at each renewal.

use std::time::{Duration, SystemTime};

use crate::{
    api::{Lease, LeaseSpec, ObjectMeta},
    time::{micro_time, parse_micro_time},
};

pub fn new(namespace: &str, name: &str) -> Lease {
    Lease { metadata: ObjectMeta::new(Some(namespace), name), spec: LeaseSpec::default() }
}

/// `duration` as a Lease has it, rounded up.
pub(crate) fn whole_seconds(duration: Duration) -> i32 {
    duration.as_secs_f64().ceil() as i32
}

/// `lease` as read, renewed: only `renewTime` changes, and the `leaseDurationSeconds` of our `own` Lease. A new one
/// has its `renewTime` from the start, as readers dereference it (ocm
/// `pkg/registration/spoke/addon/lease_controller.go:144`).
///
/// `renewTime` moves forward even when the clock steps back a little; a clock that was set back by more
/// than `duration` is trusted.
pub fn renewed(lease: &Lease, duration: Duration, now: SystemTime, own: bool) -> Lease {
    let previous = lease.spec.renew_time.as_deref().and_then(parse_micro_time);
    let time = match previous {
        Some(previous) if previous >= now && previous < now + duration => {
            previous + Duration::from_micros(1)
        }
        _ => now,
    };
    let mut lease = lease.clone();
    lease.spec.renew_time = Some(micro_time(time));
    if own {
        lease.spec.lease_duration_seconds = Some(whole_seconds(duration));
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn created(duration: Duration, now: SystemTime) -> Lease {
        renewed(&new("ns", "x"), duration, now, true)
    }

    #[test]
    fn new_lease_has_a_renew_time() {
        let Lease { metadata, spec } = created(MINUTE, at(0));
        assert_eq!(metadata.name.as_deref(), Some("x"));
        assert_eq!(spec.renew_time.as_deref(), Some("1970-01-01T00:00:00.000000Z"));
        assert_eq!(spec.lease_duration_seconds, Some(60));
    }

    #[test]
    fn only_our_fields_are_rewritten() {
        let mut lease = created(MINUTE / 2, at(0));
        lease.metadata.resource_version = Some("7".into());
        lease.metadata.other.insert("annotations".into(), serde_json::json!({"a": "b"}));
        lease.spec.holder_identity = Some("other".into());
        lease.spec.other.insert("strategy".into(), "new".into());
        let others = renewed(&lease, MINUTE, at(100), false);
        assert_eq!(others.spec.lease_duration_seconds, Some(30));
        let mut expected = lease.clone();
        expected.spec.renew_time = others.spec.renew_time.clone();
        assert_eq!(others, expected);
        let own = renewed(&lease, MINUTE, at(100), true);
        assert_eq!(own.spec.lease_duration_seconds, Some(60));
    }

    #[test]
    fn renew_time_moves_forward_over_small_clock_steps() {
        let time =
            |lease: &Lease| parse_micro_time(lease.spec.renew_time.as_deref().unwrap()).unwrap();
        let first = created(MINUTE, at(1000));
        let again = renewed(&first, MINUTE, at(1000), true);
        assert!(time(&again) > time(&first));
        let stepped_back = renewed(&again, MINUTE, at(990), true);
        assert!(time(&stepped_back) > time(&again));
        let set_back = renewed(&stepped_back, MINUTE, at(500), true);
        assert_eq!(time(&set_back), at(500));
    }
}
