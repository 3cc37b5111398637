//! Requests that vanish, that nobody may read, that are denied during a rotation, and too many of them.

use std::time::Instant;

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Rule, signing_request};
use serde_json::json;
use suite::{
    faults::code,
    needs::{Need, needs},
    ocm::{self, CLUSTER_LABEL},
    spoke::Spoke,
    within,
};

use crate::{
    certificate::support::{
        another, csr, delete, due, groups, joined_by, name, names, nothing_more, rotated, said, uid,
    },
    support::asking,
};

const HALTED: &str = "Stop creating csr since there are too many csr created already on hub";
const CSRS: &str = "certificatesigningrequests";

#[test]
fn vanished_request_is_posted_again_under_its_name() {
    let (spoke, _sidecar, name) = asking("vanished");
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
fn denied_renewal_leaves_the_old_certificate() {
    if !needs(Need::Embedded, "it approves renewals at once") {
        return;
    }
    let (spoke, old) = due("deny-renewal");
    let sidecar = spoke.start(&[]);
    assert!(said(&spoke, "CertificateRotationStarted").contains("is due for rotation"));
    let name = spoke.hub.next_csr(&spoke.cluster);
    assert_eq!(csr(&spoke, &name).expect("it")["spec"]["username"], spoke.user());
    spoke.hub.deny_csr(&name);
    let words = format!("CSR {name} was denied: Suite: by a person");
    assert!(said(&spoke, "CSRDenied").starts_with(&words), "{}", sidecar.log());
    let (reason, message) = rotated(&spoke, "False");
    assert_eq!(reason, "ClientCertificateUpdateFailed");
    let expected = format!("Failed to rotated client certificate {words}");
    assert!(message.starts_with(&expected), "{message}");
    nothing_more(&spoke, 2000);
    assert_eq!(spoke.credential(), Some(old));
    assert_eq!(sidecar.ask("/readyz").0, 200, "the old one is good still");
}

/// Ten requests, as so many restarts of a forgetful agent leave them.
fn post_ten(spoke: &Spoke) -> Vec<String> {
    let (all, groups) = (ocm::requests(), groups(spoke));
    let post = |_| {
        let groups = groups.each_ref().map(String::as_str);
        let (request, _) = signing_request(&spoke.user(), &groups);
        let body = json!({
            "apiVersion": all.api_version(), "kind": all.kind,
            "metadata": {
                "generateName": format!("{}-", spoke.cluster),
                "labels": {CLUSTER_LABEL: spoke.cluster},
            },
            "spec": {
                "request": BASE64_STANDARD.encode(request),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["digital signature", "key encipherment", "client auth"],
            },
        });
        name(&spoke.hub.cluster.create(&all.everywhere(), &body))
    };
    (0..10).map(post).collect()
}

/// About a minute: that is how often a halted agent looks.
#[test]
fn ten_own_open_requests_halt_it_until_there_is_room() {
    let spoke = Spoke::new("halted");
    let open = post_ten(&spoke);
    let start = Instant::now();
    let sidecar = spoke.start(&[]);
    let message = said(&spoke, "ClientCertificateCreationHalted");
    assert_eq!(message, HALTED);
    nothing_more(&spoke, 2000);
    assert_eq!((names(&spoke).len(), spoke.credential(), spoke.pending()), (10, None, None));
    assert_eq!(sidecar.ask("/readyz").0, 503);
    delete(&spoke, &open[0]);
    let ours = another(&spoke, &open);
    assert!(start.elapsed().as_secs() >= 55, "{:?}: no loop", start.elapsed());
    spoke.hub.approve_csr(&ours);
    joined_by(&spoke, &ours);
    assert_eq!(spoke.count_events("ClientCertificateCreationHalted"), 1);
}

/// Every way to look at requests fails, from now on.
fn hide(spoke: &Spoke, with: u16) {
    for verb in ["list", "watch", "get"] {
        let rule = Rule::new(code(with)).verb(verb).resource(CSRS);
        spoke.hub.cluster.faults().add(rule.user(&spoke.how.user()));
    }
    spoke.hub.cluster.server().restart();
}

#[test]
fn unreadable_request_is_not_taken_for_absent() {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    for with in [403, 503] {
        let (spoke, mut sidecar, name) = asking("hidden");
        let before = uid(&csr(&spoke, &name).expect("the request"));
        hide(&spoke, with);
        sidecar.wait_for(&format!(": {with}: "));
        nothing_more(&spoke, 1500);
        sidecar.kill();

        // Nor is it after a restart, which knows of it by its Secret alone.
        let again = spoke.start(&[]);
        again.wait_for(&format!(": {with}: "));
        nothing_more(&spoke, 1000);
        assert_eq!(uid(&csr(&spoke, &name).expect("it")), before, "{}", again.log());
        let asked = spoke.hub.cluster.server().requests();
        let posts = asked.iter().filter(|it| it.verb == "create" && it.resource == CSRS).count();
        assert_eq!(posts, 1, "{}\n{}", sidecar.log(), again.log());

        spoke.hub.cluster.faults().clear();
        spoke.hub.approve_csr(&name);
        joined_by(&spoke, &name);
    }
}
