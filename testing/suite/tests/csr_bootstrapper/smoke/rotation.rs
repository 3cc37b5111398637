//! Rotation: in its time, at the start, after a restart, of a Secret that was deleted, and beside another writer.

use std::{env, time::Duration};

use apiclient::resource::SECRETS;
use dev_apiserver::{Rule, SignerOptions};
use serde_json::{Value, json};
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    ocm::{self, ACCEPTED},
    real,
    sidecar::Sidecar,
    spoke::{EXPIRED, Spoke},
    throughout, within,
};

use crate::{
    certificate::support::{
        due, joined_by, name, names, no_key_alone, rotated, said, saves, works,
    },
    support::{account, beats},
};

/// A cluster that has joined, with a heartbeat each second.
fn start(spoke: &Spoke) -> Sidecar {
    let sidecar = spoke.start(&[]);
    spoke.wait_for_certificate();
    spoke.hub.wait_for_condition(&spoke.cluster, ACCEPTED, "True");
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    // The first heartbeat may come before the hub has made the Lease.
    sidecar.wait_for("is renewed every");
    sidecar
}

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

/// All after the first were asked for by the agent itself and approved by the hub.
#[track_caller]
fn renewed_by_itself(spoke: &Spoke, all: &[Value]) {
    let renewals = all.iter().filter(|csr| csr["spec"]["username"] == spoke.user());
    let renewals: Vec<_> = renewals.collect();
    assert_eq!(renewals.len(), all.len() - 1);
    for csr in renewals {
        assert_eq!(ocm::reasons(csr), ["AutoApprovedByHubCSRApprovingController"], "{}", name(csr));
    }
}

/// Rotates once within `seconds`, by itself; one session, and each heartbeat arrives.
#[track_caller]
fn rotates_unnoticed(spoke: &Spoke, sidecar: &mut Sidecar, seconds: u64) {
    let failed =
        |sidecar: &Sidecar| sidecar.metric("sidecar_lease_renewals_total{result=\"error\"}");
    let (before, beaten) = (failed(sidecar), beats(sidecar));
    let all = wait_for(spoke, 2, seconds);
    renewed_by_itself(spoke, &all);
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
    spoke.hub.cluster.server().set_signer(SignerOptions {
        lifetime: Duration::from_secs(20),
        backdate: Duration::ZERO,
        auto_approve: false,
    });
    let mut sidecar = start(&spoke);
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
    let mut sidecar = start(&spoke);
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
    spoke.hub.cluster.server().set_signer(SignerOptions {
        lifetime: Duration::from_secs(20),
        backdate: Duration::from_secs(300),
        auto_approve: false,
    });
    let first = start(&spoke);
    wait_for(&spoke, 1, 10);
    drop(first);
    let _second = spoke.start(&[]);
    wait_for(&spoke, 2, 10);
    throughout(4000, "no other request is posted", || names(&spoke).len() == 2);
}

#[test]
fn rotation_at_the_start_is_saved_in_one_write() {
    if !needs(Need::Embedded, "a certificate that is due has to be made") {
        return;
    }
    let (spoke, old) = due("at-start");
    spoke.hub.accept(&spoke.cluster);
    spoke.hub.wait_for_condition(&spoke.cluster, ACCEPTED, "True");
    let sidecar = spoke.start(&[]);
    assert!(said(&spoke, "CertificateRotationStarted").contains("is due for rotation"));
    eventually("it is rotated", || spoke.credential().filter(|now| *now != old));
    assert_eq!(rotated(&spoke, "True").0, "ClientCertificateUpdated");
    let all = spoke.hub.csrs_of(&spoke.cluster);
    assert_eq!(all.len(), 1);
    assert_eq!(ocm::reasons(&all[0]), ["AutoApprovedByHubCSRApprovingController"]);
    assert_eq!(saves(&spoke).len(), 1);
    let kept = |key: &str| spoke.credential().expect("it").get(key) == old.get(key);
    assert!(kept("cluster-name") && kept("agent-name"));
    assert_eq!(sidecar.count("the hub is used as"), 1);
}

/// A Secret that was deleted is a rotation too: the certificate in use requests it, without a person's approval.
#[test]
fn rotation_brings_a_deleted_secret_back() {
    let spoke = Spoke::auto("secret-deleted");
    let mut sidecar = start(&spoke);
    let all = wait_for(&spoke, 1, 10);
    spoke.delete_secret(&spoke.secret);
    let now = wait_for(&spoke, 2, 15);
    assert!(names(&spoke).contains(&name(&all[0])));
    renewed_by_itself(&spoke, &now);
    works(&spoke);
    assert_eq!(sidecar.count("the hub is used as"), 1, "{}", sidecar.log());
    assert!(sidecar.alive());
}

/// Another writer changes the Secret while the agent's watch is cut. The Go agent never gets over that.
#[test]
fn rotation_keeps_what_another_writer_put_into_the_secret() {
    if !needs(Need::Embedded, "it approves renewals at once") {
        return;
    }
    let (spoke, _) = due("writer");
    let _sidecar = spoke.start(&[]);
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
    let secret = spoke.managed.get(&target).expect("the Secret");
    assert_eq!(secret["metadata"]["labels"]["theirs"], "1");
    assert_eq!(secret["data"]["theirs"], "aGk=");
    let codes: Vec<_> = saves(&spoke).iter().map(|save| save.code).collect();
    assert_eq!(codes, [409, 200]);
}
