//! A Secret that cannot be written: an issued certificate is neither lost nor requested again.

use apiclient::resource::SECRETS;
use dev_apiserver::Rule;
use serde_json::json;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    pause,
    spoke::Spoke,
};

use crate::certificate::support::{
    due, joined_by, name, names, no_key_alone, rotated, said, saves,
};

/// The write of an issued certificate is refused with `with` for a while, on the way in.
fn refused(with: u16) {
    let spoke = Spoke::new("save");
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let key = spoke.pending().expect("the stored request")["tls.key"].clone();
    let faults = spoke.managed.faults();
    let rule = faults.add(Rule::new(code(with)).verb("create").resource("secrets"));
    spoke.hub.approve_csr(&request);
    eventually("the write is tried again", || (faults.hits(rule) >= 4).then_some(()));
    assert_eq!((spoke.credential(), names(&spoke).len()), (None, 1), "{}", sidecar.log());
    let before = faults.hits(rule);
    pause(1000);
    assert!(faults.hits(rule) - before < 12, "no loop: {}", faults.hits(rule));
    faults.clear();
    joined_by(&spoke, &request);
    assert_eq!(spoke.credential().expect("the Secret")["tls.key"], key);
    assert_eq!(names(&spoke), [request]);
    no_key_alone(&spoke);
}

#[test]
fn forbidden_save_is_repeated_without_a_second_request() {
    if needs(Need::Embedded, "faults are asked for") {
        refused(403);
    }
}

/// A rotation while the Secret's writes fail: once the fault is gone, the same certificate is saved.
#[test]
fn renewed_certificate_is_saved_once_writes_succeed() {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    for with in [409, 403, 422] {
        let (spoke, old) = due("save-renewal");
        let sidecar = spoke.start(&[]);
        let request = spoke.hub.next_csr(&spoke.cluster);
        let faults = spoke.managed.faults();
        let rule = Rule::new(code(with)).verb("update").resource("secrets").name(&spoke.secret);
        let rule = faults.add(rule);
        spoke.hub.approve_csr(&request);
        eventually("the write is tried again", || (faults.hits(rule) >= 4).then_some(()));
        assert_eq!((spoke.credential(), names(&spoke).len()), (Some(old), 1));
        assert_eq!(sidecar.ask("/readyz").0, 200, "the old one is good still");
        faults.clear();
        joined_by(&spoke, &request);
        assert_eq!(names(&spoke), [request]);
        assert_eq!(rotated(&spoke, "True").0, "ClientCertificateUpdated");
        no_key_alone(&spoke);
    }
}

/// The Go agent never gets over this one.
#[test]
fn conflicting_writer_of_the_secret_is_merged() {
    if !needs(Need::Embedded, "it approves renewals at once") {
        return;
    }
    let (spoke, _) = due("writer");
    let _sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    // The agent does not hear of the other writer: its watch is cut.
    let faults = spoke.managed.faults();
    for verb in ["list", "watch"] {
        let rule = Rule::new(code(503)).verb(verb).resource("secrets");
        faults
            .add(rule.user(&format!("system:serviceaccount:{}:csr-bootstrapper", spoke.namespace)));
    }
    spoke.managed.server().restart();
    let target = SECRETS.object(&spoke.namespace, &spoke.secret);
    let change = json!({"metadata": {"labels": {"theirs": "1"}}, "data": {"theirs": "aGk="}});
    spoke.managed.merge(&target, &change);
    spoke.hub.approve_csr(&request);
    joined_by(&spoke, &request);
    let secret = spoke.managed.get(&target).expect("the Secret");
    assert_eq!(
        (&secret["metadata"]["labels"]["theirs"], &secret["data"]["theirs"]),
        (&json!("1"), &json!("aGk="))
    );
    let codes: Vec<_> = saves(&spoke).iter().map(|save| save.code).collect();
    assert_eq!(codes, [409, 200]);
    faults.clear();
}

#[test]
fn lost_answer_to_the_save_makes_no_second_request() {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    let spoke = Spoke::new("lost-save");
    let _sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let lost = Rule::new(dev_apiserver::Action::ApplyThenDrop).verb("create").resource("secrets");
    spoke.managed.faults().add(lost.times(1));
    spoke.hub.approve_csr(&request);
    joined_by(&spoke, &request);
    assert_eq!(names(&spoke), [request]);
    no_key_alone(&spoke);
}

#[test]
fn secret_made_meanwhile_keeps_its_other_keys() {
    let spoke = Spoke::new("made");
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    spoke.put_secret(&spoke.secret, &[("theirs".to_owned(), b"hi".to_vec())].into());
    spoke.hub.approve_csr(&request);
    joined_by(&spoke, &request);
    assert_eq!(spoke.credential().expect("the Secret")["theirs"], b"hi");
    assert!(said(&spoke, "ClientCertificateCreated").contains(&request), "{}", sidecar.log());
    let open = spoke.hub.csrs_of(&spoke.cluster);
    assert_eq!(open.iter().map(name).collect::<Vec<_>>(), [request]);
}
