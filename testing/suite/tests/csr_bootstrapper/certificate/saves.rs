//! A Secret that cannot be written: the certificate is saved later, without a second request.

use apiclient::resource::SECRETS;
use dev_apiserver::Rule;
use serde_json::json;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    ocm,
};

use crate::{
    certificate::support::{csr, due, joined_by, names, no_key_alone, saves},
    joining::support::settled,
    support::{account, asking},
};

#[test]
fn refused_save_is_repeated_without_a_second_request() {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    let (spoke, sidecar, request) = asking("unsaved");
    let key = spoke.pending().expect("the stored request")["tls.key"].clone();
    let faults = spoke.managed.faults();
    let rule = Rule::new(code(403)).verb("create").resource("secrets").user(&account(&spoke));
    let rule = faults.add(rule);
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    eventually("the write is tried again", || faults.hits(rule) >= 2);
    let issued = ocm::certificate(&csr(&spoke, &request).expect("it")).expect("signed");
    let hits = faults.hits(rule);
    eventually("it is tried on", || faults.hits(rule) > hits);
    assert_eq!(spoke.credential(), None, "{}", sidecar.log());
    faults.clear();
    settled(&spoke, &sidecar);
    let saved = spoke.credential().expect("the Secret");
    assert_eq!((&*saved["tls.crt"], &saved["tls.key"]), (issued.as_bytes(), &key));
    assert_eq!(names(&spoke), [request]);
    no_key_alone(&spoke);
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
    faults.clear();
}
