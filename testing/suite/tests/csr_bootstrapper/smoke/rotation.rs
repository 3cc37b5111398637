//! Rotation: in its time, after a restart, and beside another writer.

use std::env;

use apiclient::resource::SECRETS;
use dev_apiserver::Rule;
use serde_json::{Value, json};
use suite::{
    faults::code,
    needs::{Need, needs},
    ocm, real,
    sidecar::Sidecar,
    spoke::{EXPIRED, Spoke},
    throughout, within,
};

use crate::{
    certificate::{due, joined_by, names, no_key_alone, rotated, said, saves, signs_for, works},
    support::{account, beating, beats},
};

/// Waits for `count` requests that were all signed and saved.
fn wait_for(spoke: &Spoke, count: usize, seconds: u64) -> Vec<Value> {
    within(seconds, &format!("{count} certificates"), || {
        let all = spoke.hub.csrs_of(&spoke.cluster);
        let saved = spoke.credential()?.get("tls.crt")?.clone();
        let current = all.iter().filter_map(ocm::certificate).any(|pem| pem.as_bytes() == saved);
        let signed = all.iter().filter(|csr| ocm::certificate(csr).is_some()).count();
        let settled = current && signed == count && spoke.pending().is_none();
        settled.then_some(all)
    })
}

/// Rotates once within `seconds`, with the certificate in use; one session, and each heartbeat arrives.
#[track_caller]
fn rotates_unnoticed(spoke: &Spoke, sidecar: &mut Sidecar, seconds: u64) {
    let failed =
        |sidecar: &Sidecar| sidecar.metric("sidecar_lease_renewals_total{result=\"error\"}");
    let (before, beaten) = (failed(sidecar), beats(sidecar));
    let all = wait_for(spoke, 2, seconds);
    let renewal = all.iter().find(|csr| csr["spec"]["username"] == spoke.user());
    let renewal = renewal.expect("the agent's own request");
    assert_eq!(ocm::reasons(renewal), ["AutoApprovedByHubCSRApprovingController"]);
    works(spoke);
    assert_eq!(rotated(spoke, "True").0, "ClientCertificateUpdated");
    assert_eq!(failed(sidecar), before, "{}", sidecar.log());
    assert!(beats(sidecar) > beaten);
    assert_eq!(sidecar.count("the hub is used as"), 1, "{}", sidecar.log());
    assert_eq!((sidecar.count(EXPIRED), sidecar.ask("/readyz").0), (0, 200));
    assert!(sidecar.alive());
}

/// Of 20 s at most a quarter is left.
#[test]
fn rotation_comes_in_its_time() {
    if !needs(Need::Embedded, "it signs for longer") {
        return;
    }
    let spoke = Spoke::auto("rotation");
    signs_for(&spoke, 20, 0);
    let mut sidecar = beating(&spoke, &[]);
    let first = spoke.wait_for_certificate();
    rotates_unnoticed(&spoke, &mut sidecar, 25);
    let used = spoke.wait_for_certificate().not_before.duration_since(first.not_before);
    assert!(used.is_ok_and(|used| used.as_secs() >= 14), "{}", sidecar.log());
    no_key_alone(&spoke);
}

/// Only with `CLUSTER_SIGNING_DURATION=2m`: of 420 s 120 are left at the beginning, of which half are used. About 70 s.
#[test]
fn rotation_by_the_real_hub() {
    let is_brief = env::var("CLUSTER_SIGNING_DURATION").as_deref() == Ok("2m");
    if !needs(Need::Found(real() && is_brief), "only with CLUSTER_SIGNING_DURATION=2m") {
        return;
    }
    let spoke = Spoke::auto("real-rotation");
    let mut sidecar = beating(&spoke, &[]);
    wait_for(&spoke, 1, 10);
    throughout(5000, "no other request is posted", || names(&spoke).len() == 1);
    rotates_unnoticed(&spoke, &mut sidecar, 90);
}

/// A certificate that is due when issued is rotated once after a restart, not in a loop.
#[test]
fn rotation_after_a_restart_has_its_pace() {
    if !needs(Need::Embedded, "it signs for longer") {
        return;
    }
    let spoke = Spoke::auto("born-restart");
    signs_for(&spoke, 20, 300);
    let first = beating(&spoke, &[]);
    wait_for(&spoke, 1, 10);
    drop(first);
    let _second = spoke.start(&[]);
    wait_for(&spoke, 2, 10);
    throughout(4000, "no other request is posted", || names(&spoke).len() == 2);
}

/// Another writer changes the Secret while the agent's watch is cut. The Go agent never gets over that.
#[test]
fn rotation_keeps_what_another_writer_put_into_the_secret() {
    if !needs(Need::Embedded, "it approves renewals at once") {
        return;
    }
    let (spoke, old) = due("writer");
    let sidecar = spoke.start(&[]);
    assert!(said(&spoke, "CertificateRotationStarted").contains("is due for rotation"));
    let request = spoke.hub.next_csr(&spoke.cluster);
    let faults = spoke.managed.faults();
    for verb in ["list", "watch"] {
        let rule = Rule::new(code(503)).verb(verb).resource("secrets");
        faults.add(rule.user(&account(&spoke)));
    }
    spoke.managed.server().restart();
    let target = SECRETS.object(&spoke.namespace, &spoke.secret);
    let change = json!({"metadata": {"labels": {"theirs": "1"}}, "data": {"theirs": "aGk="}});
    spoke.managed.merge(&target, &change);
    spoke.hub.approve_csr(&request);
    joined_by(&spoke, &request);
    assert_eq!(rotated(&spoke, "True").0, "ClientCertificateUpdated");
    let secret = spoke.managed.get(&target).expect("the Secret");
    assert_eq!(secret["metadata"]["labels"]["theirs"], "1");
    assert_eq!(secret["data"]["theirs"], "aGk=");
    let kept = |key: &str| spoke.credential().expect("it").get(key) == old.get(key);
    assert!(kept("cluster-name") && kept("agent-name"));
    let codes: Vec<_> = saves(&spoke).iter().map(|save| save.code).collect();
    assert_eq!(codes, [409, 200]);
    assert_eq!(sidecar.count("the hub is used as"), 1);
}
