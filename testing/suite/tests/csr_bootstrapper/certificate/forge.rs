//! Certificates that no signer should issue for the key of a request. No hub knows their CA: the tests check
//! whether they are accepted, not whether they work.

use std::time::{Duration, SystemTime};

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    CertificateParams, DnType, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData,
    SignatureAlgorithm,
};

/// SubjectPublicKeyInfo of a P-256 key, up to the point.
const HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 3, 1, 7, 3, 0x42, 0,
];

/// Whom a certificate is for, and when it is good: seconds from now.
pub(crate) struct Subject {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    pub(crate) from: i64,
    pub(crate) until: i64,
}

struct Point(Vec<u8>);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// For the key in the request `pem`.
pub(crate) fn certificate(pem: &[u8], subject: &Subject) -> String {
    let authority = KeyPair::generate().expect("a key");
    let issuer = Issuer::new(CertificateParams::default(), authority);
    let key = Point(point(pem));
    params(subject).signed_by(&key, &issuer).expect("a certificate").pem()
}

fn params(subject: &Subject) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    // One of each kind is all that rcgen takes; by its number it is another kind.
    let kinds = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (kind, group) in kinds.into_iter().zip(&subject.groups) {
        params.distinguished_name.push(kind, group.as_str());
    }
    params.distinguished_name.push(DnType::CommonName, subject.user.as_str());
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + seconds(subject.from);
    params.not_after = epoch + seconds(subject.until);
    params
}

/// Since 1970, so many seconds from now.
fn seconds(from_now: i64) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    Duration::from_secs(now.as_secs().saturating_add_signed(from_now))
}

/// The uncompressed point in a request.
fn point(pem: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(pem);
    let body: String = text.lines().filter(|line| !line.starts_with("--")).collect();
    let der = BASE64_STANDARD.decode(body).expect("base64");
    let at = der.windows(HEAD.len()).position(|part| part == HEAD).expect("a P-256 key");
    der[at + HEAD.len()..][..65].to_vec()
}
