//! What is read of a certificate.

use std::time::SystemTime;

use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_cert::{Certificate, der::Decode};

/// The end of the validity of the first certificate in `pem`.
pub fn expiry(pem: &[u8]) -> Option<SystemTime> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let certificate = Certificate::from_der(&der).ok()?;
    Some(certificate.tbs_certificate().validity().not_after.to_system_time())
}
