//! A certificate that cannot be used, once: the signer's next one may be good.

use suite::{eventually, spoke::Spoke};

use super::{
    forge::{self, Subject},
    support::{csr, issue, pem, said, subject},
};

#[test]
fn certificate_rejected_once_is_replaced_soon() {
    let spoke = Spoke::new("rejected-once");
    let _agent = spoke.start(&[]);
    let first = spoke.hub.next_csr(&spoke.cluster);
    let request = pem(&csr(&spoke, &first).expect("the request"));
    let wrong = Subject { until: -60, ..subject(&spoke, -300, 3600) };
    issue(&spoke, &first, forge::certificate(&request, &wrong));
    said(&spoke, "CertificateRejected");
    let second = eventually("another request", || {
        Some(spoke.hub.next_csr(&spoke.cluster)).filter(|name| *name != first)
    });
    spoke.hub.approve_csr(&second);
    spoke.wait_for_certificate();
}
