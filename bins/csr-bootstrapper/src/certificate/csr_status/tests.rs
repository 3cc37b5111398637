use serde_json::json;

use super::*;
use crate::{certificate::csr::tests::authority::*, clocks::tests::at};

/// A request of ours, and its object on the hub as the bootstrap identity posted it.
fn posted() -> (CertificateRequest, Value) {
    let request = CertificateRequest::new(&template()).unwrap();
    let mut csr = request.object(&template(), None).unwrap();
    csr["spec"]["username"] = json!("system:serviceaccount:open-cluster-management:bootstrap");
    csr["status"] = json!({});
    (request, csr)
}

fn seen(csr: &Value, request: &CertificateRequest) -> Result<CsrStatus, CsrFailure> {
    judged(csr, request, false)
}

fn judged(
    csr: &Value,
    request: &CertificateRequest,
    by_agent: bool,
) -> Result<CsrStatus, CsrFailure> {
    let (template, agent) = (&template(), &*names().user());
    evaluate(csr, &Judge { request, template, agent, by_agent, clocks: at(now()) })
}

fn conditions(kinds: &[&str]) -> Value {
    kinds
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "reason": "R", "message": "m"}))
        .collect()
}

/// The status after `pem` was issued.
fn answered(pem: &str, request: &CertificateRequest, csr: &Value) -> Result<CsrStatus, CsrFailure> {
    let mut csr = csr.clone();
    csr["status"] = json!({"conditions": conditions(&["Approved"]), "certificate": BASE64_STANDARD.encode(pem)});
    seen(&csr, request)
}

/// certificate_test.go:24, and answers that upstream ignores.
#[test]
fn each_answer_of_the_hub_means_one_thing() {
    let (request, mut csr) = posted();
    for (kinds, expected) in [
        (&[][..], Ok(CsrStatus::Pending)),
        (&["Other"], Ok(CsrStatus::Pending)),
        (&["Approved"], Ok(CsrStatus::Approved)),
        (&["Denied"], Err(CsrFailure::new(DENIED, "was denied: R: m"))),
        (&["Approved", "Denied"], Err(CsrFailure::new(DENIED, "was denied: R: m"))),
        (
            &["Approved", "Failed"],
            Err(CsrFailure::new(FAILED, "was approved but not signed: R: m")),
        ),
    ] {
        csr["status"]["conditions"] = conditions(kinds);
        assert_eq!(seen(&csr, &request), expected, "{kinds:?}");
    }
    csr["status"]["conditions"] = json!([{"type": "Denied", "status": "False"}]);
    assert_eq!(seen(&csr, &request), Ok(CsrStatus::Pending));
    csr["status"]["conditions"] = json!([{"type": "Denied"}]);
    assert_eq!(seen(&csr, &request), Err(CsrFailure::new(DENIED, "was denied without a reason")));
    for junk in [json!(null), json!(7), json!({"conditions": 7, "certificate": 7})] {
        csr["status"] = junk;
        assert_eq!(seen(&csr, &request), Ok(CsrStatus::Pending));
    }
}

#[test]
fn a_denial_counts_even_beside_a_certificate() {
    let (request, mut csr) = posted();
    let pem = CertificateTemplate::of(&names(), now()).certificate(&request);
    csr["status"] =
        json!({"conditions": conditions(&["Denied"]), "certificate": BASE64_STANDARD.encode(pem)});
    assert_eq!(seen(&csr, &request).unwrap_err().reason, DENIED);
}

#[test]
fn the_words_of_a_hub_are_one_short_line() {
    let (request, mut csr) = posted();
    let message = format!("no\nE1121 fake\u{1b}[31m{}", "ä".repeat(1000));
    csr["status"]["conditions"] = json!([{"type": "Denied", "status": "True", "message": message}]);
    let text = seen(&csr, &request).unwrap_err().sentence;
    assert!(text.starts_with("was denied: no E1121 fake [31mä"), "{text}");
    assert_eq!(text.chars().count(), "was denied: ".len() + 200);
}

#[test]
fn another_object_under_the_name_is_not_taken_for_ours() {
    let (request, csr) = posted();
    let agent = json!(names().user());
    for (field, value) in [("signerName", json!("example.com/custom")), ("username", agent)] {
        let mut csr = csr.clone();
        csr["spec"][field] = value;
        assert_eq!(seen(&csr, &request).unwrap_err().reason, FOREIGN, "{field}");
    }
}

#[test]
fn renewal_of_another_user_is_foreign_until_it_is_signed() {
    let (request, mut csr) = posted();
    let evaluated = |csr: &Value| judged(csr, &request, true);
    assert_eq!(evaluated(&csr).unwrap_err().reason, FOREIGN);
    csr["spec"]["username"] = json!(names().user());
    assert_eq!(evaluated(&csr), Ok(CsrStatus::Pending));
    csr["spec"]["username"] = json!(names().user() + "0");
    assert_eq!(evaluated(&csr).unwrap_err().reason, FOREIGN);
    let pem = CertificateTemplate::of(&names(), now()).certificate(&request);
    csr["status"] = json!({"certificate": BASE64_STANDARD.encode(&pem)});
    assert_eq!(evaluated(&csr), Ok(CsrStatus::Issued(pem.into_bytes())));
}

const JUNK: &str = "-----BEGIN JUNK-----\nAAAA\n-----END JUNK-----\n";

/// `validate` has the table of objections.
#[test]
fn issued_certificate_is_checked() {
    let (request, csr) = posted();
    let good = CertificateTemplate::of(&names(), now());
    let pem = good.certificate(&request);
    let another = CertificateRequest::new(&template()).unwrap();
    let late = CertificateTemplate { not_after: now() - MINUTE, ..good.clone() };
    for (pem, refusal) in [
        ("no PEM".into(), "holds no certificate"),
        (request.key.to_string(), "holds no certificate"),
        (pem.replace("MII", "AII"), "cannot be read"),
        (pem[..pem.len() / 2].into(), ""),
        (late.certificate(&request), "expired at 2027-01-15T07:59:00Z"),
        (good.certificate(&another), "is for another key"),
    ] {
        let CsrFailure { reason, sentence } = answered(&pem, &request, &csr).unwrap_err();
        assert_eq!(reason, REJECTED, "{pem}");
        assert!(sentence.starts_with("was answered with ") && sentence.contains(refusal));
        assert!(!sentence.contains(char::is_control) && sentence.len() < 400, "{sentence}");
    }
    for pem in [
        pem.clone(),
        format!("words\n{pem}words\n"),
        pem.replace('\n', "\r\n"),
        format!("{JUNK}{pem}{JUNK}"),
    ] {
        let issued = answered(&pem, &request, &csr);
        assert_eq!(issued, Ok(CsrStatus::Issued(pem.into_bytes())));
    }
    let mut broken = csr;
    broken["status"]["certificate"] = json!("%");
    assert_eq!(seen(&broken, &request).unwrap_err().reason, REJECTED);
}

/// csr_test.go:457
#[test]
fn only_pending_requests_of_the_template_count_for_the_throttle() {
    let (request, csr) = posted();
    let pem =
        BASE64_STANDARD.encode(CertificateTemplate::of(&names(), now()).certificate(&request));
    let labels = "/metadata/labels";
    for (case, at, value, counts) in [
        ("valid", "/status", json!({}), true),
        ("not from this cluster", labels, json!({CLUSTER_LABEL: "cluster2"}), false),
        ("not from any cluster", labels, Value::Null, false),
        ("for an add-on", labels, json!({CLUSTER_LABEL: "cluster1", ADDON_LABEL: "addon1"}), false),
        ("other signer", "/spec/signerName", json!("example.com/custom"), false),
        ("another name", "/metadata/name", json!("addon-cluster1-addon1-x"), false),
        ("a longer cluster's name", "/metadata/name", json!("cluster10-x"), false),
        ("another agent", "/spec/request", json!("anVuaw=="), true),
        ("approved", "/status", json!({"conditions": conditions(&["Approved"])}), false),
        ("denied", "/status", json!({"conditions": conditions(&["Denied"])}), false),
        ("failed", "/status", json!({"conditions": conditions(&["Failed"])}), false),
        ("issued", "/status", json!({"certificate": pem}), false),
    ] {
        let mut csr = csr.clone();
        *csr.pointer_mut(at).unwrap() = value;
        assert_eq!(is_pending(&csr, &template()), counts, "{case}");
    }
    assert!(!is_pending(&Value::Null, &template()));
}
