//! DER, as PKCS #10 (RFC 2986) and certificates (RFC 5280) have it. By hand: rcgen cannot write two O's, and x509-cert
//! builds a Name only with its feature hazmat.

pub const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
/// `[0]`, constructed.
pub const ATTRIBUTES: u8 = 0xa0;
/// `[3]` of a certificate.
pub const EXTENSIONS: u8 = 0xa3;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
/// `[2]` of a GeneralName.
const DNS_NAME: u8 = 0x82;

pub const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 29, 17];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
pub const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

/// Extensions with these DNS names (RFC 5280, section 4.2.1.6).
pub fn alternative_names(dns_names: &[String]) -> Vec<u8> {
    let names = dns_names.iter().map(|name| wrap(DNS_NAME, name.as_bytes()));
    let names = wrap(SEQUENCE, &names.collect::<Vec<_>>().concat());
    let extension =
        [wrap(OBJECT_IDENTIFIER, SUBJECT_ALT_NAME), wrap(OCTET_STRING, &names)].concat();
    wrap(SEQUENCE, &wrap(SEQUENCE, &extension))
}

/// `content` with its signature by ECDSA: a request or a certificate.
pub fn signed(content: &[u8], signature: &[u8]) -> Vec<u8> {
    wrap(SEQUENCE, &[content, &ecdsa(), &bits(signature)].concat())
}

pub fn ecdsa() -> Vec<u8> {
    wrap(SEQUENCE, &wrap(OBJECT_IDENTIFIER, ECDSA_SHA256))
}

/// SubjectPublicKeyInfo of an uncompressed point (RFC 5480).
pub fn public_key(point: &[u8]) -> Vec<u8> {
    let kind = [wrap(OBJECT_IDENTIFIER, EC_PUBLIC_KEY), wrap(OBJECT_IDENTIFIER, P256)].concat();
    wrap(SEQUENCE, &[wrap(SEQUENCE, &kind), bits(point)].concat())
}

/// One part of a name: a set of one attribute.
pub fn part(kind: &[u8], text: &str) -> Vec<u8> {
    let attribute = [wrap(OBJECT_IDENTIFIER, kind), wrap(UTF8_STRING, text.as_bytes())];
    wrap(SET, &wrap(SEQUENCE, &attribute.concat()))
}

pub fn bits(bytes: &[u8]) -> Vec<u8> {
    wrap(BIT_STRING, &[&[0], bytes].concat())
}

/// Encodes a value with its tag and length, which is below 64 KiB: all names are bounded.
pub fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    let head = match content.len() {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head[..], content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_one_and_more_bytes_are_right() {
        for (length, head) in
            [(127, &[0x30, 127][..]), (128, &[0x30, 0x81, 128]), (256, &[0x30, 0x82, 1, 0])]
        {
            assert_eq!(wrap(SEQUENCE, &vec![7; length]), [head, &vec![7; length]].concat());
        }
    }
}
