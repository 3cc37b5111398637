//! X.509 certificates: subject and validity.

use std::time::SystemTime;

use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_cert::{
    Certificate as X509,
    attr::AttributeTypeAndValue,
    der::{Decode, asn1::ObjectIdentifier},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct X509Certificate {
    /// The user, as a Kubernetes API server reads it.
    pub common_name: String,
    /// Its groups, sorted.
    pub organizations: Vec<String>,
    /// Organizational units, sorted; API servers ignore them.
    pub units: Vec<String>,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const UNIT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.11");

/// All certificates in `pem`, in order; other items are skipped. The error is a predicate about `pem`.
pub fn chain(pem: &[u8]) -> Result<Vec<X509Certificate>, &'static str> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .map(|der| read(&der.map_err(|_| "holds PEM that cannot be read")?))
        .collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() { Err("holds no certificate") } else { Ok(chain) }
}

/// The notAfter of the first certificate in `pem`.
pub fn expiry(pem: &[u8]) -> Option<SystemTime> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    Some(read(&der).ok()?.not_after)
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
        // Go takes the last one (crypto/x509/pkix, FillFromRDNSequence).
        common_name: parts(COMMON_NAME).pop().unwrap_or_default(),
        organizations: sorted(ORGANIZATION),
        units: sorted(UNIT),
        not_before: validity.not_before.to_system_time(),
        not_after: validity.not_after.to_system_time(),
    })
}

/// In practice, directory strings are UTF-8, or ASCII under another tag.
fn text(part: &AttributeTypeAndValue) -> Option<String> {
    str::from_utf8(part.value.value()).ok().map(str::to_owned)
}
