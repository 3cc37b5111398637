//! Lease objects: their content at creation and at each renewal.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::time::{micro_time, parse_micro_time};

/// A new Lease with `spec`.
pub fn new(namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    })
}

/// The spec of a heartbeat at its creation; `renewTime` is there from the start, as readers
/// dereference it (ocm `pkg/registration/spoke/addon/lease_controller.go:144`).
pub fn heartbeat(duration: Duration, now: SystemTime) -> Value {
    json!({"leaseDurationSeconds": duration.as_secs(), "renewTime": micro_time(now)})
}

/// `lease` as read, renewed: only `renewTime` changes, and the `leaseDurationSeconds` of our `own` Lease.
///
/// `renewTime` moves forward even when the clock steps back a little; a clock that was set back by more
/// than `duration` is trusted.
pub fn renewed(lease: &Value, duration: Duration, now: SystemTime, own: bool) -> Value {
    let previous = lease["spec"]["renewTime"].as_str().and_then(parse_micro_time);
    let time = match previous {
        Some(previous) if previous >= now && previous < now + duration => {
            previous + Duration::from_micros(1)
        }
        _ => now,
    };
    let spec = match own {
        true => heartbeat(duration, time),
        false => json!({"renewTime": micro_time(time)}),
    };
    with_spec(lease, spec)
}

/// `lease` with the fields of `spec` in place of its own; what others wrote stays.
pub fn with_spec(lease: &Value, spec: Value) -> Value {
    let mut lease = lease.clone();
    if let Some(metadata) = lease["metadata"].as_object_mut() {
        // Sent or not, the server keeps its own; half of a Lease's bytes.
        metadata.remove("managedFields");
    }
    if !lease["spec"].is_object() {
        lease["spec"] = json!({});
    }
    if let Value::Object(fields) = spec {
        for (name, value) in fields {
            lease["spec"][name] = value;
        }
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

    #[test]
    fn new_lease_has_a_renew_time() {
        let lease = new("ns", "x", heartbeat(MINUTE, at(0)));
        assert_eq!(lease["spec"]["renewTime"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 60);
    }

    #[test]
    fn only_our_fields_are_rewritten() {
        let lease = json!({
            "metadata": {"name": "x", "labels": {"a": "b"}, "resourceVersion": "7", "managedFields": [{}]},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 30, "strategy": "new"},
        });
        let renewed = renewed(&lease, MINUTE, at(100), true);
        assert_eq!(
            renewed["metadata"],
            json!({"name": "x", "labels": {"a": "b"}, "resourceVersion": "7"})
        );
        assert_eq!(renewed["spec"]["holderIdentity"], "other");
        assert_eq!(renewed["spec"]["strategy"], "new");
        assert_eq!(renewed["spec"]["leaseDurationSeconds"], 60);
    }

    #[test]
    fn renew_time_moves_forward_over_small_clock_steps() {
        let time =
            |lease: &Value| parse_micro_time(lease["spec"]["renewTime"].as_str().unwrap()).unwrap();
        let first = new("ns", "x", heartbeat(MINUTE, at(1000)));
        let again = renewed(&first, MINUTE, at(1000), true);
        assert!(time(&again) > time(&first));
        let stepped_back = renewed(&again, MINUTE, at(990), true);
        assert!(time(&stepped_back) > time(&again));
        let set_back = renewed(&stepped_back, MINUTE, at(500), true);
        assert_eq!(time(&set_back), at(500));
    }

    #[test]
    fn lease_without_a_spec_gets_one() {
        for spec in [json!(null), json!("x"), json!([])] {
            let lease = json!({"metadata": {"name": "x"}, "spec": spec});
            assert_eq!(renewed(&lease, MINUTE, at(0), true)["spec"]["leaseDurationSeconds"], 60);
        }
    }
}
