//! Rotation with certificates that live for seconds (ocm `test/integration/registration/
//! certificate_rotation_test.go:17`), and for two minutes on the real control plane.

use std::time::Duration;

use dev_apiserver::SignerOptions;
use serde_json::Value;
use suite::{
    needs::{Need, needs},
    ocm::{self, ACCEPTED},
    real,
    sidecar::Sidecar,
    spoke::{EXPIRED, Spoke},
    throughout, within,
};

use crate::certificate::support::{name, names, no_key_alone, rotated, saves, works};

/// A cluster that has joined, with certificates that begin `backdate` seconds ago and end in `lifetime`.
pub(crate) fn joined(name: &str, backdate: u64, lifetime: u64, flags: &[&str]) -> (Spoke, Sidecar) {
    let spoke = Spoke::auto(name);
    let seconds = Duration::from_secs;
    spoke.hub.cluster.server().set_signer(SignerOptions {
        lifetime: seconds(lifetime),
        backdate: seconds(backdate),
        auto_approve: false,
    });
    let sidecar = start(&spoke, flags);
    (spoke, sidecar)
}

pub(crate) fn start(spoke: &Spoke, flags: &[&str]) -> Sidecar {
    let sidecar = spoke.start(flags);
    spoke.wait_for_certificate();
    spoke.hub.wait_for_condition(&spoke.cluster, ACCEPTED, "True");
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    // The first heartbeat may come before the hub has made the Lease.
    sidecar.wait_for("is renewed every");
    sidecar
}

fn heartbeats(sidecar: &Sidecar, result: &str) -> f64 {
    let sample = format!("sidecar_lease_renewals_total{{result=\"{result}\"}}");
    sidecar.metric(&sample).expect("the metric is there")
}

/// Waits for `count` requests that were all signed and saved.
pub(crate) fn wait_for(spoke: &Spoke, count: usize, seconds: u64) -> Vec<Value> {
    within(seconds, &format!("{count} certificates"), || {
        let all = spoke.hub.csrs_of(&spoke.cluster);
        let saved = spoke.credential()?.get("tls.crt")?.clone();
        let current = all.iter().filter_map(ocm::certificate).any(|pem| pem.as_bytes() == saved);
        let signed = all.iter().filter(|csr| ocm::certificate(csr).is_some()).count();
        let settled = current && signed == count && spoke.pending().is_none();
        settled.then_some(all)
    })
}

/// All after the first were asked for by the agent itself and approved by the hub.
#[track_caller]
pub(crate) fn renewed_by_itself(spoke: &Spoke, all: &[Value]) {
    let renewals = all.iter().filter(|csr| csr["spec"]["username"] == spoke.user());
    let renewals: Vec<_> = renewals.collect();
    assert_eq!(renewals.len(), all.len() - 1);
    for csr in renewals {
        assert_eq!(ocm::reasons(csr), ["AutoApprovedByHubCSRApprovingController"], "{}", name(csr));
    }
}

/// One session from the beginning, and no heartbeat that failed after the `first` ones.
#[track_caller]
fn nobody_noticed(sidecar: &mut Sidecar, first: f64) {
    assert!(sidecar.alive());
    assert_eq!(sidecar.count("the hub is used as"), 1, "{}", sidecar.log());
    assert_eq!(sidecar.count(EXPIRED), 0);
    assert_eq!(heartbeats(sidecar, "error"), first, "{}", sidecar.log());
    assert!(heartbeats(sidecar, "success") > 10.0);
    assert_eq!(sidecar.ask("/readyz").0, 200);
}

/// An hour is asked for, and 20 s are given. 35 s.
// ocm certificate_rotation_test.go:17
#[test]
fn certificates_of_20_seconds_are_renewed() {
    if !needs(Need::Embedded, "it signs for longer") {
        return;
    }
    let flags = ["-client-cert-expiration-seconds", "3600"];
    let (spoke, mut sidecar) = joined("rotation", 0, 20, &flags);
    let first_errors = heartbeats(&sidecar, "error");
    let first = spoke.wait_for_certificate();
    let all = wait_for(&spoke, 2, 25);
    let second = spoke.wait_for_certificate();
    // At most 25 % of its life were left.
    let used = second.not_before.duration_since(first.not_before).expect("later").as_secs();
    assert!(used >= 14, "after {used} s");
    renewed_by_itself(&spoke, &all);
    let all = wait_for(&spoke, 3, 25);
    renewed_by_itself(&spoke, &all);
    assert!(all.iter().all(|csr| csr["spec"]["expirationSeconds"] == 3600));
    works(&spoke);
    nobody_noticed(&mut sidecar, first_errors);
    let (reason, message) = rotated(&spoke, "True");
    assert_eq!(reason, "ClientCertificateUpdated");
    assert!(message.starts_with("client certificate rotated starting from "), "{message}");
    let written: Vec<_> = saves(&spoke).iter().map(|save| save.verb.clone()).collect();
    assert_eq!(written, ["create", "update", "update"], "one write for each certificate");
    no_key_alone(&spoke);
    let keys: std::collections::BTreeSet<_> =
        saves(&spoke).iter().map(|save| save.json()["data"]["tls.key"].to_string()).collect();
    assert_eq!(keys.len(), 3, "a new key for each");
}

/// Only with `CLUSTER_SIGNING_DURATION=2m`: of 420 s 120 are left at the beginning, of which half are used.
/// About 70 s.
#[test]
fn rotation_by_the_real_hub() {
    let is_brief = std::env::var("CLUSTER_SIGNING_DURATION").as_deref() == Ok("2m");
    if !needs(Need::Found(real() && is_brief), "only with CLUSTER_SIGNING_DURATION=2m") {
        return;
    }
    let spoke = Spoke::auto("real-rotation");
    let mut sidecar = start(&spoke, &[]);
    wait_for(&spoke, 1, 10);
    let first_errors = heartbeats(&sidecar, "error");
    throughout(5000, "no other request is posted", || names(&spoke).len() == 1);
    let all = wait_for(&spoke, 2, 90);
    renewed_by_itself(&spoke, &all);
    works(&spoke);
    assert_eq!(rotated(&spoke, "True").0, "ClientCertificateUpdated");
    nobody_noticed(&mut sidecar, first_errors);
}
