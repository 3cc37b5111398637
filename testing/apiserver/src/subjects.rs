//! Subjects of certificates and CSRs, as the server reads them.

use std::time::SystemTime;

use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, pem::PemObject};
use x509_cert::{Certificate, der::Decode, name::Name, request::CertReq};

use crate::user::User;

/// The subject of a certificate or a CSR.
#[derive(Debug, Clone, PartialEq)]
pub struct Bearer {
    /// The user (CN).
    pub common_name: String,
    /// The groups (O), in order.
    pub organizations: Vec<String>,
}

/// The subject and validity of a client certificate.
#[derive(Debug, Clone, PartialEq)]
pub struct Issued {
    /// The subject.
    pub bearer: Bearer,
    /// Start of its validity.
    pub not_before: SystemTime,
    /// End of its validity.
    pub not_after: SystemTime,
}

impl Bearer {
    /// Parses a PEM CSR; None if it is invalid.
    pub fn of_request(pem: &[u8]) -> Option<Self> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem).ok()?;
        Self::named(&CertReq::from_der(&der).ok()?.info.subject)
    }

    fn named(subject: &Name) -> Option<Self> {
        let values = |wanted: &str| -> Vec<String> {
            let all = subject.iter().filter(|part| part.oid.to_string() == wanted);
            all.map(|part| String::from_utf8_lossy(part.value.value()).into_owned()).collect()
        };
        let common_name = values("2.5.4.3").into_iter().next()?;
        Some(Self { common_name, organizations: values("2.5.4.10") })
    }
}

impl Issued {
    /// Parses the first certificate in `pem`; None if there is none.
    pub fn of(pem: &[u8]) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem).ok()?;
        let certificate = Certificate::from_der(&der).ok()?;
        let content = certificate.tbs_certificate();
        let validity = content.validity();
        Some(Self {
            bearer: Bearer::named(content.subject())?,
            not_before: validity.not_before.to_system_time(),
            not_after: validity.not_after.to_system_time(),
        })
    }
}

/// Returns the user that a certificate identifies.
pub(crate) fn user_of(certificate: &[u8]) -> Option<User> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let bearer = Bearer::named(certificate.tbs_certificate().subject())?;
    Some(User::new(&bearer.common_name, bearer.organizations))
}
