//! The CertificateSigningRequest and Secret of csr-bootstrapper. `C` and DER: the certificate that answers
//! its request; `P` and text: the same as PEM. `R` and DER: a request next to the right key; `K` and DER: a
//! key next to the right request. Otherwise the CertificateSigningRequest in JSON, where REQUEST stands for
//! the right request.
//!
//! A certificate accepted as issued is for our key and user, is valid now, and belongs to a request that is
//! no longer pending. A pending request that is resumed is ours. Anything else is a one-line error.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

use std::time::{Duration, Instant, SystemTime};

use apiclient::{certificate::chain, client::USUAL_OBJECT, json};
use base64::{Engine, prelude::BASE64_STANDARD};
use csr_bootstrapper::{
    certificate::{
        csr::{CertificateRequest, KUBE_API_SERVER_CLIENT},
        csr_status::{CsrStatus, Judge, evaluate, is_own_pending},
        pkcs10::asks_for,
        validate::{Validation, objection, validate, validate_timeless},
    },
    clocks::Clocks,
    identity::{AGENT_NAME, AgentNames, CLUSTER_NAME},
};
use fuzz::{HUGE, KEY, REQUEST, assert_one_line, bounded, expand, pem};
use kubeconfig::{check_pair, secret::Data};
use serde_json::{Value, json};

/// The name of the right request: the cluster and the hash of its key.
const NAME: &str = "cluster1-93e4248d9528d4f5";
/// Keys and signatures.
const OVERHEAD: usize = 64 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    match data {
        [b'C', der @ ..] => check_certificate(&pem("CERTIFICATE", der)),
        [b'P', text @ ..] => check_certificate(&expand(text, HUGE)),
        [b'R', der @ ..] => check_pending(KEY, &pem("CERTIFICATE REQUEST", der)),
        [b'K', der @ ..] => check_pending(&pem("PRIVATE KEY", der), REQUEST),
        text => {
            let text = expand(text, HUGE);
            let text = String::from_utf8_lossy(&text);
            let text =
                text.replace("\"REQUEST\"", &format!("\"{}\"", BASE64_STANDARD.encode(REQUEST)));
            if let Ok(csr) = json::parse(text.as_bytes(), USUAL_OBJECT) {
                check_csr(&csr, text.len());
            }
        }
    }
}

fn names() -> AgentNames {
    AgentNames { cluster: "cluster1".to_owned(), agent: "agent1".to_owned() }
}

/// A time in 2027.
fn now() -> Clocks {
    Clocks::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000), Instant::now(), None)
}

/// The Secret of a pending request.
fn secret(key: &[u8], csr: &[u8]) -> Data {
    let names = names();
    [
        ("tls.key", key),
        ("tls.csr", csr),
        ("csr-name", NAME.as_bytes()),
        (CLUSTER_NAME, names.cluster.as_bytes()),
        (AGENT_NAME, names.agent.as_bytes()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_vec().into()))
    .into()
}

/// Checks the CertificateSigningRequest with `certificate` in its status.
fn check_certificate(certificate: &[u8]) {
    let csr = json!({
        "metadata": {"name": NAME},
        "spec": {"request": BASE64_STANDARD.encode(REQUEST), "signerName": KUBE_API_SERVER_CLIENT,
            "username": names().user()},
        "status": {"certificate": BASE64_STANDARD.encode(certificate),
            "conditions": [{"type": "Approved", "status": "True"}]},
    });
    let status = check_csr(&csr, certificate.len());
    assert!(matches!(status, CsrStatus::Issued(_) | CsrStatus::Wrong(_)) || certificate.is_empty());
    let mut data = secret(KEY, REQUEST);
    data.insert("tls.crt".to_owned(), certificate.to_vec().into());
    let length = certificate.len();
    let validations = bounded(length, 6 * length + OVERHEAD, || {
        (validate(&data, None, &names(), now()), validate_timeless(&data, &names()))
    });
    for validation in [Some(validations.0), validations.1].into_iter().flatten() {
        match validation {
            // There is no kubeconfig, so nothing is usable.
            Validation::Usable(_) | Validation::Moved(..) => panic!("usable without a hub"),
            Validation::Unusable(why) => assert_one_line(&why.reason, 2000),
        }
    }
}

fn check_csr(csr: &Value, length: usize) -> CsrStatus {
    let names = names();
    let request =
        CertificateRequest::of_secret(&secret(KEY, REQUEST), &names).expect("the right request");
    // The request and the certificate, decoded and parsed.
    let limit = 6 * length + OVERHEAD;
    let (template, agent) = (names.csr_template(), names.user());
    let judge = |posted_uid, by_agent| {
        let (request, template, agent) = (&request, &template, &*agent);
        Judge { request, template, posted_uid, agent, by_agent, clocks: now() }
    };
    let by = |agent| bounded(length, limit, || evaluate(csr, &judge(None, agent)));
    let (status, other) = (by(true), by(false));
    let own = bounded(length, limit, || is_own_pending(csr, &names));
    for status in [&status, &other] {
        match status {
            CsrStatus::Issued(pem) => {
                assert!(!own, "an issued request is not pending");
                let chain = chain(pem).expect("a chain");
                assert_eq!(objection(&chain, &names.subject(), now()), None);
                assert_eq!(check_pair(pem, KEY), Ok(()));
            }
            CsrStatus::Denied(why) | CsrStatus::Failed(why) | CsrStatus::Wrong(why) => {
                assert_one_line(why, 1000);
                assert!(!own, "an answered request is not pending");
            }
            CsrStatus::Pending | CsrStatus::Approved | CsrStatus::Foreign | CsrStatus::Replaced => {
            }
        }
    }
    assert_eq!(evaluate(csr, &judge(Some("\0"), true)), CsrStatus::Replaced);
    status
}

/// Checks the resumption of a request with this key and CSR.
fn check_pending(key: &[u8], csr: &[u8]) {
    let (names, length) = (names(), key.len() + csr.len());
    let data = secret(key, csr);
    let limit = 6 * length + OVERHEAD;
    let request = bounded(length, limit, || CertificateRequest::of_secret(&data, &names));
    let text = String::from_utf8_lossy(csr);
    let asks = bounded(length, limit, || asks_for(&text, &names.user()));
    if let Some(request) = request {
        assert!(asks && request.name == NAME);
    }
    let csr = json!({
        "metadata": {"name": NAME,
            "labels": {"open-cluster-management.io/cluster-name": names.cluster}},
        "spec": {"request": BASE64_STANDARD.encode(csr), "signerName": KUBE_API_SERVER_CLIENT},
    });
    assert_eq!(bounded(length, limit, || is_own_pending(&csr, &names)), asks);
}
