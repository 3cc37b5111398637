//! The certificate authority: signs the server's own certificate, client certificates for tests,
//! and approved CSRs.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING as P256, EcdsaKeyPair, KeyPair},
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::der::{self, COMMON_NAME, Certificate, ORGANIZATION, Purpose};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A certificate authority; clones share the key.
#[derive(Clone)]
pub struct Ca {
    /// The CA certificate.
    pub certificate_pem: String,
    certificate: CertificateDer<'static>,
    subject: Vec<u8>,
    key: Arc<EcdsaKeyPair>,
}

impl std::fmt::Debug for Ca {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ca").finish_non_exhaustive()
    }
}

impl Ca {
    /// Creates a CA that is valid for ten years.
    pub fn new(common_name: &str) -> Self {
        let (key, _) = generate();
        let subject = der::name(&[(COMMON_NAME, common_name)]);
        let now = SystemTime::now();
        let blank = Self {
            certificate_pem: String::new(),
            certificate: CertificateDer::from(Vec::new()),
            subject: subject.clone(),
            key: Arc::new(key),
        };
        let public_key = der::public_key(blank.key.public_key().as_ref());
        let certificate = blank.sign(&Subject {
            name: &subject,
            public_key: &public_key,
            alternative_names: &[],
            purpose: Purpose::Authority,
            not_before: now - DAY,
            not_after: now + 3650 * DAY,
        });
        let certificate_pem = pem("CERTIFICATE", &certificate);
        Self { certificate_pem, certificate: CertificateDer::from(certificate), ..blank }
    }

    /// Issues a client certificate (CN = user, O = groups), valid since a minute ago; returns the PEM certificate and
    /// PKCS#8 key.
    pub fn client_certificate(
        &self,
        user: &str,
        groups: &[&str],
        valid_for: Duration,
    ) -> (String, String) {
        let now = SystemTime::now();
        self.client_certificate_between(
            user,
            groups,
            now - Duration::from_secs(60),
            now + valid_for,
        )
    }

    /// Issues a client certificate with a given validity, for example an expired one.
    pub fn client_certificate_between(
        &self,
        user: &str,
        groups: &[&str],
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> (String, String) {
        let (pair, key) = generate();
        let certificate = self.sign(&Subject {
            name: &user_name(user, groups),
            public_key: &der::public_key(pair.public_key().as_ref()),
            alternative_names: &[],
            purpose: Purpose::Client,
            not_before,
            not_after,
        });
        (pem("CERTIFICATE", &certificate), pem("PRIVATE KEY", key.secret_pkcs8_der()))
    }

    pub(crate) fn server(&self, names: &[&str]) -> (Vec<u8>, PrivatePkcs8KeyDer<'static>) {
        let (pair, key) = generate();
        let now = SystemTime::now();
        let certificate = self.sign(&Subject {
            name: &der::name(&[(COMMON_NAME, "dev-apiserver")]),
            public_key: &der::public_key(pair.public_key().as_ref()),
            alternative_names: &der::alternative_names(names),
            purpose: Purpose::Server,
            not_before: now - DAY,
            not_after: now + 365 * DAY,
        });
        (certificate, key)
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub(crate) fn sign(&self, subject: &Subject<'_>) -> Vec<u8> {
        let to_be_signed = Certificate {
            serial: random(),
            issuer: &self.subject,
            subject: subject.name,
            public_key: subject.public_key,
            not_before: subject.not_before,
            not_after: subject.not_after,
            purpose: subject.purpose,
            alternative_names: subject.alternative_names,
        }
        .to_be_signed();
        der::signed(&to_be_signed, &sign(&self.key, &to_be_signed))
    }
}

/// The contents of a certificate to issue; names and keys in DER.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) public_key: &'a [u8],
    /// The complete extension, or empty.
    pub(crate) alternative_names: &'a [u8],
    pub(crate) purpose: Purpose,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

pub(crate) fn user_name(user: &str, groups: &[&str]) -> Vec<u8> {
    let mut parts: Vec<(&[u8], &str)> = groups.iter().map(|g| (ORGANIZATION, *g)).collect();
    parts.push((COMMON_NAME, user));
    der::name(&parts)
}

fn sign(key: &EcdsaKeyPair, message: &[u8]) -> Vec<u8> {
    let signature = key.sign(&SystemRandom::new(), message).expect("P-256 signs");
    signature.as_ref().to_vec()
}

fn generate() -> (EcdsaKeyPair, PrivatePkcs8KeyDer<'static>) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&P256, &random).expect("P-256 keys generate");
    let pair =
        EcdsaKeyPair::from_pkcs8(&P256, document.as_ref(), &random).expect("a new key is readable");
    (pair, PrivatePkcs8KeyDer::from(document.as_ref().to_vec()))
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut bytes)
        .expect("the system has random numbers");
    bytes
}

pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out + &format!("-----END {label}-----\n")
}
