//! Requests that vanish, too many of them, and an own clock that is wrong.

use std::process::Command;

use serde_json::json;
use suite::{
    clock::Clock,
    ocm::{self, global},
    spoke::{PENDING, Spoke},
    within,
};

use crate::{
    certificate::{
        forge,
        support::{csr, ended, issue, joined_by, names, nothing_more, pem, said, subject},
    },
    support::asking,
};

#[test]
fn vanished_request_is_posted_again_under_its_name() {
    let (spoke, _sidecar, name) = asking("vanished");
    let uid = || Some(csr(&spoke, &name)?["metadata"]["uid"].clone());
    let before = uid();
    spoke.hub.cluster.delete(&global(&ocm::requests(), &name));
    within(30, "it is back", || uid().filter(|it| Some(it) != before.as_ref()));
    nothing_more(&spoke, 1000);
    assert_eq!(names(&spoke), [name.as_str()]);
    spoke.hub.approve_csr(&name);
    joined_by(&spoke, &name);
}

#[test]
fn ten_pending_requests_halt_it() {
    let (spoke, mut sidecar, name) = asking("halted");
    sidecar.kill();
    spoke.delete_secret(PENDING);
    let own = csr(&spoke, &name).expect("the request");
    let copy = json!({
        "apiVersion": own["apiVersion"], "kind": own["kind"],
        "metadata": {
            "generateName": format!("{}-", spoke.cluster),
            "labels": own["metadata"]["labels"],
        },
        "spec": {
            "request": own["spec"]["request"], "signerName": own["spec"]["signerName"],
            "usages": own["spec"]["usages"],
        },
    });
    let all = ocm::requests();
    (1..10).for_each(|_| drop(spoke.hub.cluster.create(&all.everywhere(), &copy)));
    let again = spoke.start(&[]);
    let message = said(&spoke, "ClientCertificateCreationHalted");
    assert_eq!(message, "Stop creating csr since there are too many csr created already on hub");
    nothing_more(&spoke, 2000);
    assert_eq!((names(&spoke).len(), spoke.pending()), (10, None), "{}", again.log());
}

/// This machine's clock is months ahead; the certificate is valid for an hour by the hub's.
#[test]
fn own_wrong_clock_does_not_judge_the_hubs_certificates() {
    let spoke = Spoke::new("months");
    let Some(clock) = Clock::of(&spoke.command(0)) else { return };
    clock.set(200 * 86_400);
    let sidecar = spoke.start_as(|command: &mut Command| {
        command.args(["-bootstrap-kubeconfig-secret", &spoke.bootstrap]);
        clock.give(command);
    });
    let name = spoke.hub.next_csr(&spoke.cluster);
    let request = pem(&csr(&spoke, &name).expect("the request"));
    issue(&spoke, &name, forge::certificate(&request, &subject(&spoke, 0, 3600)));
    spoke.wait_for_certificate();
    nothing_more(&spoke, 3000);
    assert_eq!((names(&spoke).len(), ended(&sidecar, "Issued")), (1, 1.0), "{}", sidecar.log());
}
