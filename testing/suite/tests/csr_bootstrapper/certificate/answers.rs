//! Outcomes of a certificate request, when joining and during a rotation.

use dev_apiserver::{Rule, signing_request};
use serde_json::json;
use suite::{
    faults::code,
    identity::Data,
    needs::{Need, needs},
    spoke::Spoke,
    within,
};

use crate::certificate::support::{
    csr, delete, due, ended, fail, groups, issue, joined_by, names, nothing_more, post, rotated,
    said, signed, uid,
};

#[test]
fn failed_request_is_reported_and_followed_by_no_other() {
    let spoke = Spoke::new("failed");
    let sidecar = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    fail(&spoke, &name);
    let message = said(&spoke, "CSRFailed");
    let words = "was approved but not signed: SignerValidationFailure: no luck";
    assert!(message.contains(&format!("CSR {name} {words}")), "{message}");
    nothing_more(&spoke, 3000);
    assert_eq!((spoke.credential(), ended(&sidecar, "CSRFailed")), (None, 1.0));
}

#[test]
fn new_bootstrap_kubeconfig_ends_the_rest_after_a_denial() {
    let spoke = Spoke::new("rest");
    let _sidecar = spoke.start(&[]);
    let first = spoke.hub.next_csr(&spoke.cluster);
    spoke.hub.deny_csr(&first);
    said(&spoke, "CSRDenied");
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    let second = spoke.hub.approve_next(&spoke.cluster);
    assert_ne!(first, second, "a key that was denied is not shown again");
    joined_by(&spoke, &second);
}

#[test]
fn denied_request_is_not_repeated_after_a_restart() {
    let spoke = Spoke::new("denied-restart");
    let first = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    spoke.hub.deny_csr(&name);
    said(&spoke, "CSRDenied");
    drop(first);
    let second = spoke.start(&[]);
    second.wait_for("was denied");
    nothing_more(&spoke, 1500);
}

/// A rotation that comes to nothing: Event, condition, no other request soon unless the certificate was wrong, and the old
/// one in use.
fn comes_to_nothing(name: &str, event: &str, answer: impl Fn(&Spoke, &str), words: &str) {
    let (spoke, old) = due(name);
    let sidecar = spoke.start(&[]);
    assert!(said(&spoke, "CertificateRotationStarted").contains("is due for rotation"));
    let name = spoke.hub.next_csr(&spoke.cluster);
    assert_eq!(csr(&spoke, &name).expect("it")["spec"]["username"], spoke.user());
    answer(&spoke, &name);
    assert!(said(&spoke, event).contains(&format!("CSR {name} {words}")), "{}", sidecar.log());
    let (reason, message) = rotated(&spoke, "False");
    assert_eq!(reason, "ClientCertificateUpdateFailed");
    let expected = format!("Failed to rotated client certificate CSR {name} {words}");
    assert!(message.starts_with(&expected), "{message}");
    if event == "CertificateRejected" {
        assert_eq!(spoke.credential().as_ref(), Some(&old));
    } else {
        keeps(&spoke, &old);
    }
    assert_eq!(sidecar.ask("/readyz").0, 200, "the old one is good still");
}

#[track_caller]
fn keeps(spoke: &Spoke, old: &Data) {
    nothing_more(spoke, 2000);
    assert_eq!(spoke.credential().as_ref(), Some(old));
}

#[test]
fn denied_renewal_leaves_the_old_certificate() {
    if !needs(Need::Embedded, "it approves renewals at once") {
        return;
    }
    let deny = |spoke: &Spoke, name: &str| spoke.hub.deny_csr(name);
    comes_to_nothing("deny-renewal", "CSRDenied", deny, "was denied: Suite: by a person");
}

#[test]
fn vanished_request_is_posted_again_under_its_name() {
    let spoke = Spoke::new("vanished");
    let _sidecar = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    for _ in 0..2 {
        let before = uid(&csr(&spoke, &name).expect("the request"));
        delete(&spoke, &name);
        within(30, "it is back", || csr(&spoke, &name).filter(|csr| uid(csr) != before));
    }
    nothing_more(&spoke, 1000);
    assert_eq!(names(&spoke), [name.as_str()]);
    spoke.hub.approve_csr(&name);
    joined_by(&spoke, &name);
}

#[test]
fn name_taken_by_another_key_is_left_alone() {
    let spoke = Spoke::new("taken");
    let first = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    drop(first);
    delete(&spoke, &name);
    let groups = groups(&spoke);
    let (request, _) = signing_request(&spoke.user(), &groups.each_ref().map(String::as_str));
    post(&spoke, json!({"name": name}), request.as_bytes());
    spoke.hub.approve_csr(&name);

    let sidecar = spoke.start(&[]);
    assert!(said(&spoke, "CertificateRejected").contains("is for another key"));
    let other = spoke.hub.approve_next(&spoke.cluster);
    assert_ne!(other, name);
    joined_by(&spoke, &other);
    assert_eq!(ended(&sidecar, "CertificateRejected"), 1.0);
    assert_eq!(names(&spoke).len(), 2);
}

/// Whoever puts the same request there under another uid has changed nothing.
#[test]
fn replaced_request_is_known_by_its_content() {
    if !needs(Need::Embedded, "the agent would be faster than whoever replaces it") {
        return;
    }
    let spoke = Spoke::new("replaced");
    let sidecar = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    let mut object = csr(&spoke, &name).expect("the request");
    let before = uid(&object);
    blind(&spoke, || {
        let server = spoke.hub.cluster.server();
        server.delete("certificates.k8s.io/v1", "certificatesigningrequests", "", &name);
        object["metadata"] = json!({"name": name, "labels": object["metadata"]["labels"]});
        assert_ne!(uid(&server.put(object)), before);
    });
    spoke.hub.approve_csr(&name);
    joined_by(&spoke, &name);
    assert_eq!((names(&spoke), ended(&sidecar, "Issued")), (vec![name], 1.0));
}

/// Does something while the agent can neither see nor post requests.
fn blind(spoke: &Spoke, act: impl FnOnce()) {
    let hub = &spoke.hub.cluster;
    for verb in ["list", "watch", "get", "create"] {
        let rule = Rule::new(code(503)).verb(verb).resource("certificatesigningrequests");
        hub.faults().add(rule.user(&spoke.how.user()));
    }
    hub.server().restart();
    act();
    hub.faults().clear();
}

#[test]
fn certificate_with_a_longer_life_is_taken() {
    let spoke = Spoke::new("longer");
    let sidecar = spoke.start(&["-client-cert-expiration-seconds", "3600"]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    // Without the wish, the signer gives as much as it has.
    let long = signed(&spoke, &csr(&spoke, &name).expect("the request"));
    issue(&spoke, &name, &long);
    joined_by(&spoke, &name);
    let until = spoke.wait_for_certificate().not_after;
    let end = until.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    assert_eq!(sidecar.metric("sidecar_certificate_expiration_timestamp_seconds"), Some(end));
    nothing_more(&spoke, 1000);
}
