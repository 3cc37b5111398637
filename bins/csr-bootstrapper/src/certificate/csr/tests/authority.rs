//! Certificates for tests, of any user and validity. Nobody here verifies their signer.

use std::time::{Duration, SystemTime};

use apiclient::time::seconds_time;
use ring::{rand::SystemRandom, signature::KeyPair};

use super::super::*;
use crate::certificate::pkcs10::name;
use sidecar::der::{
    COMMON_NAME, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, P256, SEQUENCE, UTC_TIME, bits, ecdsa,
    part, public_key, wrap,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn names() -> AgentNames {
    AgentNames { cluster: "cluster1".into(), agent: "agent1".into() }
}

/// The requests of these names.
pub(crate) fn template() -> CsrTemplate {
    names().csr_template()
}

/// A moment in 2027, in whole seconds as certificates have them.
pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// The content of a certificate.
#[derive(Clone)]
pub(crate) struct CertificateTemplate {
    pub(crate) subject: Subject,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

impl CertificateTemplate {
    /// As the signer of a real hub issues it for `names`: for an hour, backdated.
    pub(crate) fn of(names: &AgentNames, now: SystemTime) -> Self {
        Self { subject: names.subject(), not_before: now - MINUTE * 5, not_after: now + HOUR }
    }

    /// An authority for its chain.
    pub(crate) fn of_authority(now: SystemTime) -> Self {
        let subject = Subject { user: "kubernetes".to_owned(), ..Subject::default() };
        Self { subject, not_before: now - HOUR * 1000, not_after: now + HOUR * 1000 }
    }

    /// PEM of the certificate for the request's key, signed by it.
    pub(crate) fn certificate(&self, request: &CertificateRequest) -> String {
        let pair = pair(&request.key).unwrap();
        let content = [
            wrap(0xa0, &wrap(INTEGER, &[2])),
            wrap(INTEGER, &[1]),
            ecdsa(),
            wrap(SEQUENCE, &part(COMMON_NAME, "kubernetes")),
            wrap(SEQUENCE, &[time(self.not_before), time(self.not_after)].concat()),
            name(&self.subject),
            public_key(pair.public_key().as_ref()),
        ];
        let content = wrap(SEQUENCE, &content.concat());
        let signature = pair.sign(&SystemRandom::new(), &content).unwrap();
        to_pem("CERTIFICATE", &signed(&content, signature.as_ref()))
    }
}

fn time(at: SystemTime) -> Vec<u8> {
    let text = seconds_time(at);
    let digits: String = text.chars().skip(2).filter(char::is_ascii_digit).collect();
    wrap(UTC_TIME, format!("{digits}Z").as_bytes())
}

/// The request's key as Go writes one: SEC 1 with the curve.
pub(crate) fn go_key(request: &CertificateRequest) -> String {
    let pkcs8 = PrivatePkcs8KeyDer::from_pem_slice(request.key.as_bytes()).unwrap();
    let pkcs8 = pkcs8.secret_pkcs8_der();
    let pair = pair_of(pkcs8).unwrap();
    // ring's PKCS #8 has the number behind 36 bytes that are always the same.
    let parts = [
        wrap(INTEGER, &[1]),
        wrap(OCTET_STRING, &pkcs8[36..68]),
        wrap(0xa0, &wrap(OBJECT_IDENTIFIER, P256)),
        wrap(0xa1, &bits(pair.public_key().as_ref())),
    ];
    to_pem("EC PRIVATE KEY", &wrap(SEQUENCE, &parts.concat()))
}
