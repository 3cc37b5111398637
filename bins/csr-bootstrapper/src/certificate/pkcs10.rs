//! PKCS #10: the bytes of a certificate request (RFC 2986), and of a certificate that signs itself (RFC 5280).

// DER by hand: rcgen cannot write two O's, and x509-cert builds a Name only with its feature hazmat.
pub(super) const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
pub(super) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]`, constructed.
const ATTRIBUTES: u8 = 0xa0;
/// `[3]` of a certificate.
const EXTENSIONS: u8 = 0xa3;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[2]` of a GeneralName.
const DNS_NAME: u8 = 0x82;

pub(super) const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const UNIT: &[u8] = &[0x55, 4, 11];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 29, 17];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
pub(super) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The common name.
    pub user: String,
    /// The organizations, sorted, each once.
    pub groups: Vec<String>,
    /// The organizational units, sorted, each once.
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

/// TBSCertificate of the host `name` for its own key, valid at any time (RFC 5280, sections 4.1 and 4.1.2.5): whoever
/// asks it verifies nothing, and needs no clock for that.
pub(crate) fn own_certificate(name: &str, point: &[u8]) -> Vec<u8> {
    let host = wrap(SEQUENCE, &part(COMMON_NAME, name));
    let validity = [wrap(UTC_TIME, b"700101000000Z"), wrap(GENERALIZED_TIME, b"99991231235959Z")];
    let parts = [
        wrap(ATTRIBUTES, &wrap(INTEGER, &[2])),
        wrap(INTEGER, &[1]),
        ecdsa(),
        host.clone(),
        wrap(SEQUENCE, &validity.concat()),
        host,
        public_key(point),
        wrap(EXTENSIONS, &alternative_names(&[name.to_owned()])),
    ];
    wrap(SEQUENCE, &parts.concat())
}

/// Extensions with these names of hosts (RFC 5280, section 4.2.1.6).
fn alternative_names(dns_names: &[String]) -> Vec<u8> {
    let names = dns_names.iter().map(|name| wrap(DNS_NAME, name.as_bytes()));
    let names = wrap(SEQUENCE, &names.collect::<Vec<_>>().concat());
    let extension =
        [wrap(OBJECT_IDENTIFIER, SUBJECT_ALT_NAME), wrap(OCTET_STRING, &names)].concat();
    wrap(SEQUENCE, &wrap(SEQUENCE, &extension))
}

/// The attribute that asks for a certificate with these names of hosts (RFC 2985, section 5.4.2).
fn requested_extensions(dns_names: &[String]) -> Vec<u8> {
    let extensions = alternative_names(dns_names);
    let attribute = [wrap(OBJECT_IDENTIFIER, EXTENSION_REQUEST), wrap(SET, &extensions)];
    wrap(SEQUENCE, &attribute.concat())
}

pub(crate) fn signed(content: &[u8], signature: &[u8]) -> Vec<u8> {
    wrap(SEQUENCE, &[content, &ecdsa(), &bits(signature)].concat())
}

pub(super) fn ecdsa() -> Vec<u8> {
    wrap(SEQUENCE, &wrap(OBJECT_IDENTIFIER, ECDSA_SHA256))
}

/// SubjectPublicKeyInfo of an uncompressed point (RFC 5480).
pub(super) fn public_key(point: &[u8]) -> Vec<u8> {
    let kind = [wrap(OBJECT_IDENTIFIER, EC_PUBLIC_KEY), wrap(OBJECT_IDENTIFIER, P256)].concat();
    wrap(SEQUENCE, &[wrap(SEQUENCE, &kind), bits(point)].concat())
}

/// One part of a name: a set of one attribute.
pub(super) fn part(kind: &[u8], text: &str) -> Vec<u8> {
    let attribute = [wrap(OBJECT_IDENTIFIER, kind), wrap(UTF8_STRING, text.as_bytes())];
    wrap(SET, &wrap(SEQUENCE, &attribute.concat()))
}

pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    wrap(BIT_STRING, &[&[0], bytes].concat())
}

/// One value with its tag and length, which is below 64 KiB: all names are bounded.
pub(super) fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    let head = match content.len() {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head[..], content].concat()
}
