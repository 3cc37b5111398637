//! Other writers between two steps, and lost answers: there is still one request and one certificate.

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Action, Faults, Rule};
use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    ocm,
    spoke::{PENDING, Spoke},
};

use crate::joining::support::{
    is_seen, joined, let_in, roles, settled, stays_as_it_is, wait_for_another,
};

fn hub_faults(spoke: &Spoke) -> &Faults {
    spoke.hub.cluster.faults()
}

fn busy() -> Action {
    Action::Answer { code: 503, body: None, retry_after: None }
}

#[test]
fn the_answer_to_the_request_is_lost() {
    if !needs(Need::Embedded, "answers can be lost") {
        return;
    }
    let spoke = Spoke::new("cut-post");
    let lost = Rule::new(Action::ApplyThenDrop).verb("create");
    let rule = hub_faults(&spoke).add(lost.resource("certificatesigningrequests").times(1));
    let sidecar = spoke.start(&[]);
    let_in(&spoke);
    settled(&spoke, &sidecar);
    assert_eq!((hub_faults(&spoke).hits(rule), roles(&spoke)), (1, vec!["bootstrap"]));
}

#[test]
fn the_answer_to_the_secrets_write_is_lost() {
    if !needs(Need::Embedded, "answers can be lost") {
        return;
    }
    let spoke = Spoke::new("cut-save");
    let faults = spoke.managed.faults();
    let stored = Rule::new(Action::ApplyThenDrop).verb("create").resource("secrets").times(1);
    let first = faults.add(stored.clone());
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let second = faults.add(stored);
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &sidecar);
    assert_eq!((faults.hits(first), faults.hits(second)), (1, 1));
    assert_eq!(roles(&spoke), ["bootstrap"]);
}

/// What was issued is not thrown away: it is saved as soon as that is possible.
#[test]
fn the_secret_cannot_be_written_for_a_while() {
    if !needs(Need::Embedded, "writes can be refused") {
        return;
    }
    let spoke = Spoke::new("cut-refused");
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let faults = spoke.managed.faults();
    let rule = faults.add(Rule::new(busy()).verb("create").resource("secrets").times(3));
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &sidecar);
    assert_eq!((faults.hits(rule), roles(&spoke)), (3, vec!["bootstrap"]));
}

#[test]
fn it_ended_after_the_certificate_was_saved_and_before_the_request_was_removed() {
    let (spoke, mut sidecar) = joined("cut-forget");
    sidecar.kill();
    let saved = spoke.credential().expect("the Secret");
    let mut left = saved.clone();
    left.remove("tls.crt");
    left.remove("kubeconfig");
    let name = spoke.hub.csrs_of(&spoke.cluster)[0]["metadata"]["name"].clone();
    let csr = asked_with(&spoke);
    left.insert("tls.csr".into(), csr);
    left.insert("csr-name".into(), name.as_str().expect("a name").into());
    spoke.put_secret(PENDING, &left);
    let mut sidecar = spoke.start(&[]);
    settled(&spoke, &sidecar);
    stays_as_it_is(&spoke, &mut sidecar);
    assert_eq!((spoke.credential(), roles(&spoke)), (Some(saved), vec!["bootstrap"]));
}

/// What the cluster's one request asks with.
fn asked_with(spoke: &Spoke) -> Vec<u8> {
    let request = &spoke.hub.csrs_of(&spoke.cluster)[0];
    let text = request["spec"]["request"].as_str().expect("a request");
    BASE64_STANDARD.decode(text).expect("base64")
}

#[test]
fn the_stored_request_is_deleted_while_it_waits() {
    let spoke = Spoke::new("cut-deleted");
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    spoke.delete_secret(PENDING);
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
}

#[test]
fn the_stored_request_is_junk() {
    let spoke = Spoke::new("cut-junk");
    let junk = [("tls.key".to_owned(), b"junk".to_vec())].into();
    spoke.put_secret(PENDING, &junk);
    let sidecar = spoke.start(&[]);
    let_in(&spoke);
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"]);
}

/// An election takes a moment to begin, and not all have one.
#[test]
fn two_at_once_make_one_request_and_share_its_certificate() {
    let spoke = Spoke::new("cut-two");
    let (first, second) = (spoke.start(&[]), spoke.start(&[]));
    let request = spoke.hub.next_csr(&spoke.cluster);
    for sidecar in [&first, &second] {
        eventually("both wait", || {
            (sidecar.ask("/readyz").0 == 503 && spoke.pending().is_some()).then_some(())
        });
    }
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &first);
    second.wait_for_code("/readyz", 200);
    let key = spoke.credential().expect("the Secret")["tls.key"].clone();
    for mut sidecar in [first, second] {
        stays_as_it_is(&spoke, &mut sidecar);
    }
    assert_eq!(roles(&spoke), ["bootstrap"]);
    assert_eq!(spoke.credential().expect("the Secret")["tls.key"], key);
}

/// Hubs exist whose bootstrap identity may only ask for certificates.
#[test]
fn the_bootstrap_identity_may_not_introduce_the_cluster() {
    if !needs(Need::Embedded, "rights can be taken away") {
        return;
    }
    let spoke = Spoke::new("cut-introduce");
    let user = spoke.how.user();
    hub_faults(&spoke).add(Rule::new(Action::Forbid).resource("managedclusters").user(&user));
    let sidecar = spoke.start(&[]);
    spoke.hub.approve_next(&spoke.cluster);
    spoke.wait_for_certificate();
    sidecar.wait_for_code("/readyz", 200);
    assert!(spoke.hub.managed_cluster(&spoke.cluster).is_none());
    let clusters = ocm::clusters();
    let cluster = json!({
        "apiVersion": clusters.api_version(), "kind": clusters.kind,
        "metadata": {"name": spoke.cluster}, "spec": {"hubAcceptsClient": true},
    });
    spoke.hub.cluster.create(&ocm::global(&clusters, &spoke.cluster).siblings(), &cluster);
    is_seen(&spoke.hub, &spoke.cluster);
}

/// The Secret is taken away in the middle of the renewal that its loss brought about.
#[test]
fn the_secret_is_deleted_again_and_again() {
    let (spoke, mut sidecar) = joined("cut-again");
    for round in 1..=3 {
        let before = spoke.credential().expect("the Secret");
        spoke.delete_secret(&spoke.secret);
        wait_for_another(&spoke, &before);
        settled(&spoke, &sidecar);
        assert_eq!(roles(&spoke).len(), round + 1, "one request each time");
    }
    stays_as_it_is(&spoke, &mut sidecar);
    assert_eq!(roles(&spoke), ["agent", "agent", "agent", "bootstrap"]);
}
