//! PKCS #10: the bytes of a certificate request (RFC 2986).

use sidecar::der::{
    ATTRIBUTES, COMMON_NAME, INTEGER, OBJECT_IDENTIFIER, SEQUENCE, SET, alternative_names, part,
    public_key, wrap,
};

const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const UNIT: &[u8] = &[0x55, 4, 11];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The common name.
    pub user: String,
    /// The organizations, sorted and unique.
    pub groups: Vec<String>,
    /// The organizational units, sorted and unique.
    pub units: Vec<String>,
}

/// CertificationRequestInfo: the signed part (RFC 2986, section 4.1).
pub(super) fn content(subject: &Subject, dns_names: &[String], point: &[u8]) -> Vec<u8> {
    let extensions = match dns_names.is_empty() {
        true => Vec::new(),
        false => requested_extensions(dns_names),
    };
    let parts =
        [wrap(INTEGER, &[0]), name(subject), public_key(point), wrap(ATTRIBUTES, &extensions)];
    wrap(SEQUENCE, &parts.concat())
}

/// The subject's name: groups and units, then the user.
pub(super) fn name(subject: &Subject) -> Vec<u8> {
    let Subject { user, groups, units } = subject;
    let all = |kind, texts: &[String]| {
        texts.iter().map(|text| part(kind, text)).collect::<Vec<_>>().concat()
    };
    let parts = [all(ORGANIZATION, groups), all(UNIT, units), part(COMMON_NAME, user)];
    wrap(SEQUENCE, &parts.concat())
}

/// The attribute that requests a certificate with these DNS names (RFC 2985, section 5.4.2).
fn requested_extensions(dns_names: &[String]) -> Vec<u8> {
    let extensions = alternative_names(dns_names);
    let attribute = [wrap(OBJECT_IDENTIFIER, EXTENSION_REQUEST), wrap(SET, &extensions)];
    wrap(SEQUENCE, &attribute.concat())
}
