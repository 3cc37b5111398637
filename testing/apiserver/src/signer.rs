//! CertificateSigningRequests: validation, approval, and the signer
//! `kubernetes.io/kube-apiserver-client`.

use std::time::{Duration, SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::signature::{ECDSA_P256_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject};
use serde_json::{Value, json};
use x509_cert::{
    der::{Decode, Encode},
    request::{CertReq, ExtensionReq},
};

use crate::{
    ca::{Ca, Subject, pem, user_name},
    der::Purpose,
    status::Cause,
    time::now,
};

pub(crate) const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const USAGES: [&str; 3] = ["digital signature", "key encipherment", "client auth"];
/// From this lifetime on, the real signer shortens the certificate by `backdate`.
const LONG: Duration = Duration::from_secs(8 * 3600);

/// Options for signing approved requests.
#[derive(Debug, Clone)]
pub struct SignerOptions {
    /// Longest validity, counted from the time of signing.
    pub lifetime: Duration,
    /// How long notBefore precedes the signing; always five minutes for the real signer.
    pub backdate: Duration,
    /// Approve every request for `kubernetes.io/kube-apiserver-client`.
    pub auto_approve: bool,
}

impl Default for SignerOptions {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(365 * 24 * 3600),
            backdate: Duration::from_secs(300),
            auto_approve: false,
        }
    }
}

/// Validates new requests and changed conditions like the real server.
pub(crate) fn check(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    if before.is_none() {
        if let Err(why) = parse(spec) {
            let value = spec["request"].to_string();
            causes.push(Cause::invalid("spec.request", &value, &why));
        }
        if spec["usages"].as_array().is_none_or(Vec::is_empty) {
            causes.push(Cause::required("spec.usages", "usages must be provided"));
        }
        if spec["signerName"].as_str().is_none_or(|name| !name.contains('/')) {
            let why = "must be a fully qualified domain and path of the form \
                       'example.com/signer-name'";
            causes.push(Cause::invalid("spec.signerName", &spec["signerName"].to_string(), why));
        }
        if let Some(seconds @ ..600) = spec["expirationSeconds"].as_i64() {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            causes.push(Cause::invalid("spec.expirationSeconds", &seconds.to_string(), why));
        }
    }
    let (approved, denied) = (has_condition(object, "Approved"), has_condition(object, "Denied"));
    if approved && denied {
        let why = "Approved and Denied conditions are mutually exclusive";
        causes.push(Cause::invalid("status.conditions", "\"Denied\"", why));
    }
    for kind in ["Approved", "Denied", "Failed"] {
        if before.is_some_and(|before| has_condition(before, kind)) && !has_condition(object, kind)
        {
            let why = format!("updates may not remove a condition of type \"{kind}\"");
            causes.push(Cause::forbidden("status.conditions", &why));
        }
    }
}

pub(crate) fn has_condition(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == condition)
}

/// Returns whether the subject claims `system:masters`, which admission rejects for this signer.
pub(crate) fn claims_system_masters(object: &Value) -> bool {
    let is_master = |request: CertReq| {
        let mut parts = request.info.subject.iter();
        parts.any(|part| {
            part.oid.to_string() == "2.5.4.10" && part.value.value() == b"system:masters"
        })
    };
    object["spec"]["signerName"] == SIGNER && parse(&object["spec"]).is_ok_and(is_master)
}

fn parse(spec: &Value) -> Result<CertReq, String> {
    let text = spec["request"].as_str().unwrap_or_default();
    let text = STANDARD.decode(text).map_err(|error| error.to_string())?;
    let request = CertificateSigningRequestDer::from_pem_slice(&text)
        .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_string())?;
    let request = CertReq::from_der(&request).map_err(|error| format!("asn1: {error}"))?;
    verify(&request).ok_or("x509: signature of the request does not verify")?;
    Ok(request)
}

impl Ca {
    /// Returns a PEM certificate for a CSR's key and the given user, valid for an hour.
    pub fn certificate_for(&self, csr: &Value, user: &str, groups: &[&str]) -> String {
        let now = SystemTime::now();
        let certificate = self.sign(&Subject {
            name: &user_name(user, groups),
            public_key: &public_key_of(&csr["spec"]).expect("a CSR"),
            alternative_names: &[],
            purpose: Purpose::Client,
            not_before: now - Duration::from_secs(60),
            not_after: now + Duration::from_secs(3600),
        });
        pem("CERTIFICATE", &certificate)
    }
}

/// Returns the DER of a request's public key.
fn public_key_of(spec: &Value) -> Result<Vec<u8>, String> {
    parse(spec)?.info.public_key.to_der().map_err(|error| error.to_string())
}

/// Verifies that the requester holds the key. Clients here use P-256 and RSA; other signatures are rejected.
fn verify(request: &CertReq) -> Option<()> {
    let signed = request.info.to_der().ok()?;
    let key = request.info.public_key.subject_public_key.raw_bytes();
    let signature = request.signature.raw_bytes();
    let verified = match request.algorithm.oid.to_string().as_str() {
        "1.2.840.10045.4.3.2" => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(&signed, signature)
        }
        "1.2.840.113549.1.1.11" => {
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).verify(&signed, signature)
        }
        _ => return None,
    };
    verified.ok()
}

/// Returns the object after the signer processed it; None if there is nothing to do.
pub(crate) fn advance(object: &Value, ca: &Ca, options: &SignerOptions) -> Option<Value> {
    let is_done = !object["status"]["certificate"].is_null();
    let is_closed = has_condition(object, "Denied") || has_condition(object, "Failed");
    if object["spec"]["signerName"] != SIGNER || is_done || is_closed {
        return None;
    }
    let mut next = object.clone();
    if has_condition(object, "Approved") {
        match issue(&object["spec"], ca, options) {
            Ok(certificate) => next["status"]["certificate"] = certificate.into(),
            Err(why) => add_condition(&mut next, "Failed", "SignerValidationFailure", &why),
        }
        return Some(next);
    }
    options.auto_approve.then(|| {
        add_condition(&mut next, "Approved", "AutoApproved", "approved by the test server");
        next
    })
}

/// Adds a condition, as `kubectl certificate approve` does.
pub(crate) fn add_condition(object: &mut Value, kind: &str, reason: &str, message: &str) {
    let now = now();
    let condition = json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    });
    match object["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => object["status"]["conditions"] = json!([condition]),
    }
}

/// Issues the certificate of an approved request, as base64 of PEM.
fn issue(spec: &Value, ca: &Ca, options: &SignerOptions) -> Result<String, String> {
    let usages: Vec<&str> =
        spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !usages.contains(&"client auth") || usages.iter().any(|usage| !USAGES.contains(usage)) {
        return Err("usages did not match the allowed list or lack client auth".into());
    }
    let request = parse(spec)?;
    let asked = spec["expirationSeconds"].as_u64().map(Duration::from_secs);
    let lifetime = asked.map_or(options.lifetime, |asked| asked.min(options.lifetime));
    let rest = if lifetime < LONG { lifetime } else { lifetime.saturating_sub(options.backdate) };
    let now = SystemTime::now();
    let certificate = ca.sign(&Subject {
        name: &request.info.subject.to_der().map_err(|error| error.to_string())?,
        public_key: &public_key_of(spec)?,
        alternative_names: &alternative_names(&request),
        purpose: Purpose::Client,
        not_before: now - options.backdate,
        not_after: now + rest,
    });
    Ok(STANDARD.encode(pem("CERTIFICATE", &certificate)))
}

/// Returns the requested SAN extension byte for byte, or nothing.
fn alternative_names(request: &CertReq) -> Vec<u8> {
    let values = request.info.attributes.iter().flat_map(|attribute| attribute.values.iter());
    let lists = values.filter_map(|value| value.decode_as::<ExtensionReq>().ok());
    let mut all = lists.flat_map(|list| list.0);
    let found = all.find(|extension| extension.extn_id.to_string() == "2.5.29.17");
    found.and_then(|extension| extension.to_der().ok()).unwrap_or_default()
}
