//! Rotation: at the start, after a restart, of a Secret that was deleted, and beside another writer.

use apiclient::resource::SECRETS;
use dev_apiserver::Rule;
use serde_json::json;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    ocm::{self, ACCEPTED},
    spoke::Spoke,
    throughout,
};

use crate::{
    certificate::{
        rotation::{joined, renewed_by_itself, start, wait_for},
        support::{due, joined_by, name, names, rotated, said, saves, works},
    },
    support::account,
};

/// A certificate that is due when issued is rotated once after a restart, not in a loop.
#[test]
fn rotation_after_a_restart_has_its_pace() {
    if !needs(Need::Embedded, "it signs for longer") {
        return;
    }
    let (spoke, first) = joined("born-restart", 300, 20, &[]);
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
    let mut sidecar = start(&spoke, &[]);
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
