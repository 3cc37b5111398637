//! Corner cases of a request: a certificate that outlives it, a denied renewal, a rotation that meets a
//! deletion, and what people are shown meanwhile.

use std::time::{Duration, Instant};

use dev_apiserver::{Action, Rule};
use serde_json::{Value, json};
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    ocm::{self, Bootstrap, global, requests},
    pause,
    sidecar::Sidecar,
    spoke::Spoke,
    within,
};

use crate::joining::support::{account, due, is_seen, let_in, roles, settled, wait_for_another};

fn names(spoke: &Spoke) -> Vec<Value> {
    spoke.hub.csrs_of(&spoke.cluster).iter().map(|csr| csr["metadata"]["name"].clone()).collect()
}

// --- what was issued ---

/// The write of the certificate fails with `with` until its request is gone from the hub.
fn outlives_its_request(name: &str, with: u16) {
    if !needs(Need::Embedded, "faults can be asked for") {
        return;
    }
    let spoke = Spoke::new(name);
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let faults = spoke.managed.faults();
    let rule = Rule::new(code(with)).verb("create").resource("secrets").user(&account(&spoke));
    let rule = faults.add(rule);
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    eventually("the write is refused", || (faults.hits(rule) >= 2).then_some(()));
    let all = requests();
    let target = global(&all, &request);
    let issued = ocm::certificate(&spoke.hub.cluster.get(&target).expect("it")).expect("signed");
    spoke.hub.cluster.delete(&target);
    let hits = faults.hits(rule);
    eventually("it is tried on", || (faults.hits(rule) > hits).then_some(()));
    assert!(names(&spoke).is_empty() && spoke.credential().is_none(), "{}", sidecar.log());
    faults.clear();
    settled(&spoke, &sidecar);
    assert_eq!(spoke.credential().expect("the Secret")["tls.crt"], issued.as_bytes());
    assert!(names(&spoke).is_empty(), "{}", sidecar.log());
    assert_eq!(sidecar.count("was created on the hub"), 1);
}

#[test]
fn unsaved_certificate_outlives_its_request() {
    outlives_its_request("corner-403", 403);
}

#[test]
fn secret_deleted_during_a_save_comes_back_whole() {
    if !needs(Need::Embedded, "a write can be held up") {
        return;
    }
    let spoke = due("corner-put");
    spoke.hub.accept(&spoke.cluster);
    let before = spoke.credential().expect("the Secret");
    let faults = spoke.managed.faults();
    let rule = Rule::new(Action::Delay { milliseconds: 2000 }).verb("update").resource("secrets");
    let rule = faults.add(rule.name(&spoke.secret).user(&account(&spoke)));
    let sidecar = spoke.start(&[]);
    eventually("the write is on its way", || (faults.hits(rule) > 0).then_some(()));
    spoke.delete_secret(&spoke.secret);
    let now = wait_for_another(&spoke, &before);
    let keys: Vec<_> = now.keys().map(String::as_str).collect();
    assert_eq!(keys, ["agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    assert_eq!(now["kubeconfig"], before["kubeconfig"]);
    settled(&spoke, &sidecar);
    assert_eq!(spoke.credential().as_ref(), Some(&now));
    assert_eq!(roles(&spoke), ["agent", "bootstrap"], "{}", sidecar.log());
}

// --- denied ---

// --- rights ---

/// Where neither list nor watch is allowed, the request is looked up every 15 s.
#[test]
fn bootstrap_identity_that_may_only_get_requests_joins() {
    if !needs(Need::Embedded, "rights can be taken away at once") {
        return;
    }
    let spoke = Spoke::new("corner-get");
    let faults = spoke.hub.cluster.faults();
    for verb in ["list", "watch"] {
        let rule = Rule::new(Action::Forbid).verb(verb).resource("certificatesigningrequests");
        faults.add(rule.user(&Bootstrap::Manual.user()));
    }
    let sidecar = spoke.start(&[]);
    let_in(&spoke);
    within(60, "the certificate is saved", || spoke.certificate());
    settled(&spoke, &sidecar);
    assert_eq!(roles(&spoke), ["bootstrap"], "{}", sidecar.log());
}

// --- what a person is told ---

/// Waits until /readyz is 503 and says all of this.
#[track_caller]
fn says(sidecar: &Sidecar, parts: &[&str]) {
    eventually(&format!("/readyz says {parts:?}"), || {
        let (code, why) = sidecar.ask("/readyz");
        (code == 503 && parts.iter().all(|part| why.contains(part))).then_some(())
    });
}

#[test]
fn readyz_names_the_request_that_waits_and_how_it_ended() {
    let spoke = Spoke::new("corner-readyz");
    let sidecar = spoke.start(&[]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let approve = format!("kubectl certificate approve {request}");
    says(&sidecar, &["does not exist", &request, &approve]);
    // It stays there.
    pause(1000);
    says(&sidecar, &[&approve]);
    spoke.hub.deny_csr(&request);
    says(
        &sidecar,
        &[&format!("CSR {request} was denied: Suite: by a person"), "requesting another one in 3"],
    );
    assert!(!sidecar.ask("/readyz").1.contains(&approve));
}

#[test]
fn readyz_names_the_refusal_of_the_hub() {
    if !needs(Need::Embedded, "rights can be taken away at once") {
        return;
    }
    let spoke = Spoke::new("corner-refused");
    let faults = spoke.hub.cluster.faults();
    faults.add(refusal());
    let sidecar = spoke.start(&[]);
    says(&sidecar, &["does not exist", "forbidden", "certificatesigningrequests"]);
    faults.clear();
    let_in(&spoke);
    settled(&spoke, &sidecar);
}

/// Runs it once for three seconds; the last line of its log.
#[track_caller]
fn last_line(spoke: &Spoke, meanwhile: impl FnOnce()) -> String {
    let start = Instant::now();
    let mut sidecar = spoke.start(&["-once", "-wait-timeout", "3"]);
    meanwhile();
    assert!(!sidecar.wait().success() && start.elapsed() > Duration::from_millis(2900));
    sidecar.log().lines().last().expect("a log").to_owned()
}

#[test]
fn once_ends_with_the_request_that_waits_or_its_end() {
    let spoke = Spoke::new("corner-once");
    let line = last_line(&spoke, || {});
    let request = spoke.hub.next_csr(&spoke.cluster);
    assert!(line.contains("no credential after 3 s"), "{line}");
    assert!(line.contains(&format!("kubectl certificate approve {request}")), "{line}");
    let line = last_line(&spoke, || spoke.hub.deny_csr(&request));
    assert!(line.contains(&format!("CSR {request} was denied: Suite: by a person")), "{line}");
}

/// The bootstrap identity may not post requests.
fn refusal() -> Rule {
    let rule = Rule::new(Action::Forbid).verb("create").resource("certificatesigningrequests");
    rule.user(&Bootstrap::Manual.user())
}

/// Hubs exist whose bootstrap identity may only ask for certificates.
#[test]
fn bootstrap_identity_may_not_create_the_cluster_but_joins() {
    if !needs(Need::Embedded, "rights can be taken away") {
        return;
    }
    let spoke = Spoke::new("cut-introduce");
    let user = spoke.how.user();
    spoke
        .hub
        .cluster
        .faults()
        .add(Rule::new(Action::Forbid).resource("managedclusters").user(&user));
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
