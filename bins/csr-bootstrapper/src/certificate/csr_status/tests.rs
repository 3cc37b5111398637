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

fn judged(
    csr: &Value,
    request: &CertificateRequest,
    by_agent: bool,
) -> Result<CsrStatus, CsrFailure> {
    let (template, agent) = (&template(), &*names().user());
    evaluate(csr, &Judge { request, template, agent, by_agent, clocks: at(now()) })
}

/// The result with this status.
fn answered(status: Value) -> Result<CsrStatus, CsrFailure> {
    let (request, mut csr) = posted();
    csr["status"] = status;
    judged(&csr, &request, false)
}

fn conditions(kinds: &[&str]) -> Value {
    let conditions = kinds.iter();
    let conditions = conditions
        .map(|kind| json!({"type": kind, "status": "True", "reason": "R", "message": "m"}));
    json!({"conditions": conditions.collect::<Vec<_>>()})
}

/// certificate_test.go:24, and answers that upstream ignores.
#[test]
fn each_answer_of_the_hub_means_one_thing() {
    let denied = |why: &str| Err(CsrFailure::new(DENIED, format!("was denied{why}")));
    let failed = CsrFailure::new(FAILED, "was approved but not signed: R: m");
    let mut beside = conditions(&["Denied"]);
    beside["certificate"] = json!("a certificate");
    let words = format!("no\nfake\u{1b}[31m{}", "ä".repeat(1000));
    for (status, expected) in [
        (conditions(&[]), Ok(CsrStatus::Pending)),
        (conditions(&["Other"]), Ok(CsrStatus::Pending)),
        (conditions(&["Approved"]), Ok(CsrStatus::Approved)),
        (conditions(&["Denied"]), denied(": R: m")),
        (conditions(&["Approved", "Denied"]), denied(": R: m")),
        (beside, denied(": R: m")),
        (conditions(&["Approved", "Failed"]), Err(failed)),
        (json!({"conditions": [{"type": "Denied", "status": "False"}]}), Ok(CsrStatus::Pending)),
        (json!({"conditions": [{"type": "Denied"}]}), denied(" without a reason")),
        (
            json!({"conditions": [{"type": "Denied", "message": words}]}),
            denied(&format!(": {}", quoted(&words))),
        ),
        (json!(null), Ok(CsrStatus::Pending)),
        (json!(7), Ok(CsrStatus::Pending)),
        (json!({"conditions": 7, "certificate": 7}), Ok(CsrStatus::Pending)),
        (
            json!({"certificate": "%"}),
            Err(CsrFailure::new(REJECTED, "was issued a certificate that is not base64")),
        ),
    ] {
        assert_eq!(answered(status.clone()), expected, "{:.200}", status.to_string());
    }
}

#[test]
fn another_object_under_the_name_is_foreign_until_it_is_signed() {
    let (request, csr) = posted();
    let agent = names().user();
    let pem = CertificateTemplate::of(&names(), now()).certificate(&request);
    for (field, value, by_agent) in [
        ("signerName", "example.com/custom", false),
        ("username", &*agent, false),
        ("username", "somebody", true),
        ("username", &(agent.clone() + "0"), true),
    ] {
        let mut csr = csr.clone();
        csr["spec"][field] = json!(value);
        assert_eq!(judged(&csr, &request, by_agent).unwrap_err().reason, FOREIGN, "{value}");
        assert_eq!(judged(&csr, &request, !by_agent).is_ok(), field == "username", "{value}");
        csr["status"] = json!({"certificate": BASE64_STANDARD.encode(&pem)});
        assert_eq!(judged(&csr, &request, by_agent).is_ok(), field == "username", "{value}");
    }
}

const JUNK: &str = "-----BEGIN JUNK-----\nAAAA\n-----END JUNK-----\n";

/// `validate` has the table of objections.
#[test]
fn issued_certificate_is_checked() {
    let (request, mut csr) = posted();
    let mut answered = |pem: &str| {
        csr["status"] = json!({"certificate": BASE64_STANDARD.encode(pem)});
        judged(&csr, &request, false)
    };
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
        let CsrFailure { reason, sentence } = answered(&pem).unwrap_err();
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
        let issued = answered(&pem);
        assert_eq!(issued, Ok(CsrStatus::Issued(pem.into_bytes())));
    }
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
        ("approved", "/status", conditions(&["Approved"]), false),
        ("denied", "/status", conditions(&["Denied"]), false),
        ("failed", "/status", conditions(&["Failed"]), false),
        ("issued", "/status", json!({"certificate": pem}), false),
    ] {
        let mut csr = csr.clone();
        *csr.pointer_mut(at).unwrap() = value;
        assert_eq!(is_pending(&csr, &template()), counts, "{case}");
    }
    assert!(!is_pending(&Value::Null, &template()));
}
