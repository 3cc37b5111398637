//! One of several replicas works.

use std::time::SystemTime;

use apiclient::{resource::LEASES, time::micro_time};
use serde_json::json;
use suite::{sidecar::Sidecar, spoke::Spoke};

use crate::joining::support::{roles, settled};

/// Upstream's (ocm `pkg/common/options/options.go`).
const LOCK: &str = "registration-agent-lock";

/// A replica with short times of its election.
fn replica(spoke: &Spoke) -> Sidecar {
    let flags = [
        "-disable-leader-election=false",
        "-leader-election-lease-duration=4s",
        "-leader-election-renew-deadline=3s",
        "-leader-election-retry-period=1s",
    ];
    spoke.start(&flags)
}

#[test]
fn second_replica_takes_over_the_request_of_a_crashed_one() {
    let spoke = Spoke::new("elect-crash");
    let mut first = replica(&spoke);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let second = replica(&spoke);
    first.kill();
    second.wait_for("became the leader");
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &second);
    assert_eq!(roles(&spoke), ["bootstrap"], "one request in all");
}

#[test]
fn lead_lost_to_another_ends_the_process() {
    let spoke = Spoke::auto("elect-lost");
    let mut sidecar = replica(&spoke);
    settled(&spoke, &sidecar);
    let now = micro_time(SystemTime::now());
    let spec = json!({"holderIdentity": "another", "renewTime": now, "acquireTime": now});
    spoke.managed.merge(&LEASES.object(&spoke.namespace, LOCK), &json!({"spec": spec}));
    assert_eq!(sidecar.wait().code(), Some(1), "{}", sidecar.log());
    let sentence = "error=\"lost leader election: another replica is the leader\"";
    assert!(sidecar.log().ends_with(sentence), "{}", sidecar.log());
    let holder = spoke.managed.leader(&spoke.namespace, LOCK);
    assert_eq!(holder.as_deref(), Some("another"), "it is left to the other");
}
