//! The CertificateSigningRequest and Secret of csr-bootstrapper. `C` and DER: the certificate issued for its request;
//! `P` and text: as PEM. `K` and DER: a stored key. Otherwise the CertificateSigningRequest in JSON, where REQUEST
//! stands for the correct request.
//!
//! An accepted certificate is for our key and user, is currently valid, and belongs to a request that is no longer
//! pending. A resumed request is ours. Anything else is a one-line error.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

use std::time::{Duration, Instant, SystemTime};

use apiclient::{certificate::chain, client::USUAL_OBJECT, json};
use base64::{Engine, prelude::BASE64_STANDARD};
use csr_bootstrapper::{
    certificate::{
        csr::{CertificateRequest, KUBE_API_SERVER_CLIENT},
        csr_status::{CsrFailure, CsrStatus, FOREIGN, Judge, REJECTED, evaluate, is_pending},
        validate::{objection, validate},
    },
    clocks::Clocks,
    identity::{AGENT_NAME, AgentNames, CLUSTER_NAME},
};
use fuzz::{HUGE, KEY, REQUEST, assert_one_line, bounded, expand, pem};
use kubeconfig::{check_pair, secret::Data};
use serde_json::{Value, json};

/// For keys and signatures.
const OVERHEAD: usize = 64 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    match data {
        [b'C', der @ ..] => check_certificate(&pem("CERTIFICATE", der)),
        [b'P', text @ ..] => check_certificate(&expand(text, HUGE)),
        [b'K', der @ ..] => check_stored(&pem("PRIVATE KEY", der)),
        text => {
            let text = expand(text, HUGE);
            let text = String::from_utf8_lossy(&text);
            let text =
                text.replace("\"REQUEST\"", &format!("\"{}\"", BASE64_STANDARD.encode(REQUEST)));
            if let Some(csr) = json::parse(text.as_bytes(), USUAL_OBJECT) {
                drop(check_csr(&csr, text.len()));
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

/// Returns the correct request.
fn request() -> CertificateRequest {
    let key = String::from_utf8_lossy(KEY).into_owned();
    CertificateRequest::of_key(key.into(), &names().csr_template()).expect("the right key")
}

/// Returns the Secret of a pending request.
fn secret(key: &[u8]) -> Data {
    let (names, request) = (names(), request());
    [
        ("tls.key", key),
        ("csr-name", request.name.as_bytes()),
        (CLUSTER_NAME, names.cluster.as_bytes()),
        (AGENT_NAME, names.agent.as_bytes()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_vec().into()))
    .into()
}

/// Checks the CertificateSigningRequest with `certificate` in its status.
fn check_certificate(certificate: &[u8]) {
    let csr = json!({
        "metadata": {"name": request().name},
        "spec": {"request": BASE64_STANDARD.encode(REQUEST), "signerName": KUBE_API_SERVER_CLIENT,
            "username": names().user()},
        "status": {"certificate": BASE64_STANDARD.encode(certificate),
            "conditions": [{"type": "Approved", "status": "True"}]},
    });
    let status = check_csr(&csr, certificate.len());
    let is_judged = match status {
        Ok(status) => matches!(status, CsrStatus::Issued(_)),
        Err(failure) => failure.reason == REJECTED,
    };
    assert!(is_judged || certificate.is_empty());
    let mut data = secret(KEY);
    data.insert("tls.crt".to_owned(), certificate.to_vec().into());
    let length = certificate.len();
    let limit = 6 * length + OVERHEAD;
    match bounded(length, limit, || validate(&data, None, &names(), now())) {
        // Nothing is usable without a kubeconfig.
        Ok(_) => panic!("usable without a hub"),
        Err(why) => assert_one_line(&why.reason, 2000),
    }
}

fn check_csr(csr: &Value, length: usize) -> Result<CsrStatus, CsrFailure> {
    let (names, request) = (names(), request());
    // For the request and the certificate, decoded and parsed.
    let limit = 6 * length + OVERHEAD;
    let (template, agent) = (names.csr_template(), names.user());
    let judge = |by_agent| {
        let (request, template, agent) = (&request, &template, &*agent);
        Judge { request, template, agent, by_agent, clocks: now() }
    };
    let by = |agent| bounded(length, limit, || evaluate(csr, &judge(agent)));
    let (status, other) = (by(true), by(false));
    let own = bounded(length, limit, || is_pending(csr, &template));
    for status in [&status, &other] {
        match status {
            Ok(CsrStatus::Issued(pem)) => {
                assert!(!own, "an issued request is not pending");
                let chain = chain(pem).expect("a chain");
                assert_eq!(objection(&chain, &names.subject(), now()), None);
                assert_eq!(check_pair(pem, KEY), Ok(()));
            }
            Err(failure) => {
                assert_one_line(&failure.sentence, 1000);
                assert!(!own || failure.reason == FOREIGN, "an answered request is not pending");
            }
            Ok(CsrStatus::Pending | CsrStatus::Approved) => {}
        }
    }
    status
}

/// Checks the resumption of a request with this key.
fn check_stored(key: &[u8]) {
    let (names, data, limit) = (names(), secret(key), 6 * key.len() + OVERHEAD);
    let resumed = bounded(key.len(), limit, || CertificateRequest::of_secret(&data, &names));
    if let Some(resumed) = resumed {
        assert!(resumed.name == request().name);
    }
}
