//! X.509 certificates: subject and validity, use as an authority, and use by a server.

use std::time::SystemTime;

use rustls::{
    CertificateError,
    pki_types::{CertificateDer, pem::PemObject},
};
use x509_cert::{
    Certificate as X509,
    attr::AttributeTypeAndValue,
    der::{Decode, asn1::ObjectIdentifier},
    ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage},
    time::{Time, Validity},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct X509Certificate {
    /// The user, as a Kubernetes API server reads it.
    pub common_name: String,
    /// Its groups, sorted.
    pub organizations: Vec<String>,
    /// Organizational units, sorted; without a meaning for an API server.
    pub units: Vec<String>,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const UNIT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.11");

/// All certificates in `pem`, in order; other items between them are skipped. An error is the predicate of a sentence
/// about `pem`.
pub fn chain(pem: &[u8]) -> Result<Vec<X509Certificate>, &'static str> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .map(|der| read(&der.map_err(|_| "holds PEM that cannot be read")?))
        .collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() { Err("holds no certificate") } else { Ok(chain) }
}

/// The end of the validity of the first certificate in `pem`.
pub fn expiry(pem: &[u8]) -> Option<SystemTime> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    Some(read(&der).ok()?.not_after)
}

/// Returns whether the certificate in `der` may vouch for others at `now`, in seconds since the epoch (RFC 5280,
/// 4.2.1.9 and 4.2.1.3).
pub(crate) fn is_authority(der: &[u8], now: u64) -> bool {
    let Ok(certificate) = X509::from_der(der) else { return false };
    let certificate = certificate.tbs_certificate();
    let constraints = certificate.get_extension::<BasicConstraints>();
    let usage = certificate.get_extension::<KeyUsage>();
    matches!(constraints, Ok(Some((_, constraints))) if constraints.ca)
        && usage.is_ok_and(|usage| usage.is_none_or(|(_, usage)| usage.key_cert_sign()))
        && check_validity(certificate.validity(), now).is_ok()
}

const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const ANY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");

/// Checks that a server may show this certificate at `now`, in seconds since the epoch, whatever its issuer is (Go's
/// crypto/x509 Certificate.isValid and checkChainForKeyUsage).
pub(crate) fn may_serve(der: &[u8], now: u64) -> Result<(), CertificateError> {
    let certificate = X509::from_der(der).map_err(|_| CertificateError::BadEncoding)?;
    let certificate = certificate.tbs_certificate();
    check_validity(certificate.validity(), now)?;
    let usage = certificate.get_extension::<ExtendedKeyUsage>();
    let usage = usage.map_err(|_| CertificateError::BadEncoding)?;
    let is_server = |usage: &ObjectIdentifier| [SERVER_AUTH, ANY_USAGE].contains(usage);
    if usage.is_some_and(|(_, usage)| !usage.0.iter().any(is_server)) {
        return Err(CertificateError::InvalidPurpose);
    }
    Ok(())
}

fn check_validity(validity: &Validity, now: u64) -> Result<(), CertificateError> {
    let seconds = |time: Time| time.to_unix_duration().as_secs();
    if now < seconds(validity.not_before) {
        return Err(CertificateError::NotValidYet);
    }
    if now > seconds(validity.not_after) {
        return Err(CertificateError::Expired);
    }
    Ok(())
}

fn read(der: &[u8]) -> Result<X509Certificate, &'static str> {
    let certificate = X509::from_der(der).map_err(|_| "holds a certificate that cannot be read")?;
    let certificate = certificate.tbs_certificate();
    let validity = certificate.validity();
    let parts = |kind: ObjectIdentifier| -> Vec<String> {
        let parts = certificate.subject().iter().filter(|part| part.oid == kind);
        parts.filter_map(text).collect()
    };
    let sorted = |kind| {
        let mut parts = parts(kind);
        parts.sort_unstable();
        parts
    };
    Ok(X509Certificate {
        // The last one counts in Go (crypto/x509/pkix, FillFromRDNSequence).
        common_name: parts(COMMON_NAME).pop().unwrap_or_default(),
        organizations: sorted(ORGANIZATION),
        units: sorted(UNIT),
        not_before: validity.not_before.to_system_time(),
        not_after: validity.not_after.to_system_time(),
    })
}

/// Directory strings that anybody uses are UTF-8, or ASCII under another tag.
fn text(part: &AttributeTypeAndValue) -> Option<String> {
    str::from_utf8(part.value.value()).ok().map(str::to_owned)
}
