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

/// The process ends once another replica leads.
#[test]
fn second_replica_takes_over_the_request_of_a_crashed_one() {
    let spoke = Spoke::new("elect-crash");
    let mut first = replica(&spoke);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let mut second = replica(&spoke);
    first.kill();
    second.wait_for("became the leader");
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &second);
    assert_eq!(roles(&spoke), ["bootstrap"], "one request in all");

    let now = micro_time(SystemTime::now());
    let spec = json!({"holderIdentity": "another", "renewTime": now, "acquireTime": now});
    spoke.managed.merge(&LEASES.object(&spoke.namespace, LOCK), &json!({"spec": spec}));
    assert_eq!(second.wait().code(), Some(1), "{}", second.log());
    let sentence = "error=\"lost leader election: another replica is the leader\"";
    assert!(second.log().ends_with(sentence), "{}", second.log());
    let holder = spoke.managed.leader(&spoke.namespace, LOCK);
    assert_eq!(holder.as_deref(), Some("another"), "it is left to the other");
}
