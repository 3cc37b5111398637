//! Requests that are denied, answered with a wrong certificate, or too many.

use serde_json::json;
use suite::{ocm, spoke::PENDING};

use crate::{
    certificate::{another, csr, ended, groups, joined_by, names, nothing_more, said, sign},
    support::asking,
};

/// An Event reports it, and nothing is saved.
#[test]
fn certificate_for_another_user_is_refused() {
    let (spoke, mut sidecar, name) = asking("other-user");
    let groups = groups(&spoke);
    sign(&spoke, &name, &format!("{}2", spoke.user()), &groups.each_ref().map(|group| &**group));
    let message = said(&spoke, "CertificateRejected");
    let expected = format!("CSR {name} was answered with a certificate that is for user");
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(spoke.credential(), None);
    assert!(spoke.pending().is_some(), "until there is another request, it is kept");
    assert_eq!(ended(&sidecar, "CertificateRejected"), 1.0);
    // The signer's next one may be good.
    let second = another(&spoke, &[name]);
    spoke.hub.approve_csr(&second);
    joined_by(&spoke, &second);
    assert_eq!(spoke.count_events("CertificateRejected"), 1);
    assert!(sidecar.alive());
}

/// Neither soon nor by another process, until somebody gives it another bootstrap kubeconfig.
#[test]
fn denied_request_is_reported_and_followed_by_no_other() {
    let (spoke, sidecar, name) = asking("denied");
    spoke.hub.deny_csr(&name);
    let message = said(&spoke, "CSRDenied");
    let words = format!("CSR {name} was denied: Suite: by a person; requesting another one in ");
    let rest = message.strip_prefix(&words).and_then(|rest| rest.strip_suffix(" s"));
    let rest: u64 = rest.and_then(|rest| rest.parse().ok()).unwrap_or_else(|| panic!("{message}"));
    assert!((300..=375).contains(&rest), "five minutes and up to a quarter: {rest} s");
    nothing_more(&spoke, 3000);
    assert_eq!((spoke.credential(), spoke.count_events("CSRDenied")), (None, 1));
    assert_eq!((sidecar.ask("/readyz").0, sidecar.ask("/healthz").0), (503, 200));
    assert_eq!(ended(&sidecar, "CSRDenied"), 1.0);
    drop(sidecar);
    let again = spoke.start(&[]);
    again.wait_for("was denied");
    nothing_more(&spoke, 1500);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    let other = spoke.hub.approve_next(&spoke.cluster);
    assert_ne!(other, name, "a key that was denied is not shown again");
    joined_by(&spoke, &other);
}

#[test]
fn ten_pending_requests_halt_it() {
    let (spoke, mut sidecar, name) = asking("halted");
    sidecar.kill();
    spoke.delete_secret(PENDING);
    let mut copy = csr(&spoke, &name).expect("the request");
    copy["metadata"] = json!({
        "generateName": format!("{}-", spoke.cluster), "labels": copy["metadata"]["labels"],
    });
    let all = ocm::requests();
    (1..10).for_each(|_| drop(spoke.hub.cluster.create(&all.everywhere(), &copy)));
    let again = spoke.start(&[]);
    let message = said(&spoke, "ClientCertificateCreationHalted");
    assert_eq!(message, "Stop creating csr since there are too many csr created already on hub");
    nothing_more(&spoke, 2000);
    assert_eq!((names(&spoke).len(), spoke.pending()), (10, None), "{}", again.log());
}
