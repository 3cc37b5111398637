//! A minimal DER encoder for certificates; x509-cert parses. Raw parts are the simplest way to keep a request's subject
//! byte for byte, including several O's.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

pub(crate) const COMMON_NAME: &[u8] = &[0x55, 4, 3];
pub(crate) const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
/// `id-kp` 1 (server) and 2 (client).
const PURPOSE: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3];

/// The purpose of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Authority,
    Server,
    Client,
}

/// Encodes one value with its tag and length.
pub(crate) fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..0x80 => out.push(length as u8),
        0x80..0x100 => out.extend([0x81, length as u8]),
        _ => out.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend(content);
    out
}

pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    wrap(SEQUENCE, &parts.concat())
}

fn oid(bytes: &[u8]) -> Vec<u8> {
    wrap(6, bytes)
}

fn bit_string(bytes: &[u8]) -> Vec<u8> {
    wrap(3, &[&[0], bytes].concat())
}

pub(crate) fn name(parts: &[(&[u8], &str)]) -> Vec<u8> {
    let one = |(kind, text): &(&[u8], &str)| {
        wrap(SET, &sequence(&[&oid(kind), &wrap(0x0c, text.as_bytes())]))
    };
    wrap(SEQUENCE, &parts.iter().flat_map(one).collect::<Vec<_>>())
}

/// SubjectPublicKeyInfo of an uncompressed P-256 point.
pub(crate) fn public_key(point: &[u8]) -> Vec<u8> {
    sequence(&[&sequence(&[&oid(EC_PUBLIC_KEY), &oid(P256)]), &bit_string(point)])
}

fn ecdsa() -> Vec<u8> {
    sequence(&[&oid(ECDSA_SHA256)])
}

/// UTCTime, which RFC 5280 requires through 2049; no certificate here lives longer.
fn time(at: SystemTime) -> Vec<u8> {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let whole = UNIX_EPOCH + Duration::from_secs(seconds);
    let text = humantime::format_rfc3339_seconds(whole).to_string();
    let digits: String = text.chars().skip(2).filter(char::is_ascii_digit).collect();
    wrap(0x17, format!("{digits}Z").as_bytes())
}

/// SAN extension for IP addresses and DNS names.
pub(crate) fn alternative_names(names: &[&str]) -> Vec<u8> {
    let one = |name: &&str| match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => wrap(0x87, &address.octets()),
        Ok(IpAddr::V6(address)) => wrap(0x87, &address.octets()),
        Err(_) => wrap(0x82, name.as_bytes()),
    };
    let names: Vec<u8> = names.iter().flat_map(one).collect();
    extension(SUBJECT_ALT_NAME, false, &wrap(SEQUENCE, &names))
}

fn extension(kind: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let flag: &[u8] = if critical { &[1, 1, 0xff] } else { &[] };
    sequence(&[&oid(kind), flag, &wrap(4, content)])
}

fn extensions(purpose: Purpose, alternative_names: &[u8]) -> Vec<u8> {
    let is_authority = purpose == Purpose::Authority;
    // Key usage bits: keyCertSign+cRLSign, or digitalSignature+keyEncipherment.
    let usage: &[u8] = if is_authority { &[1, 0x06] } else { &[5, 0xa0] };
    let constraints: &[u8] = if is_authority { &[1, 1, 0xff] } else { &[] };
    let extended = match purpose {
        Purpose::Authority => Vec::new(),
        Purpose::Server => extended_usage(1),
        Purpose::Client => extended_usage(2),
    };
    let all = sequence(&[
        &extension(KEY_USAGE, true, &wrap(3, usage)),
        &extended,
        &extension(BASIC_CONSTRAINTS, true, &sequence(&[constraints])),
        alternative_names,
    ]);
    wrap(0xa3, &all)
}

fn extended_usage(id: u8) -> Vec<u8> {
    let purpose = oid(&[PURPOSE, &[id]].concat());
    extension(EXTENDED_KEY_USAGE, false, &sequence(&[&purpose]))
}

/// The fields of a certificate, names and keys in DER.
pub(crate) struct Certificate<'a> {
    pub(crate) serial: [u8; 8],
    pub(crate) issuer: &'a [u8],
    pub(crate) subject: &'a [u8],
    pub(crate) public_key: &'a [u8],
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
    pub(crate) purpose: Purpose,
    pub(crate) alternative_names: &'a [u8],
}

impl Certificate<'_> {
    /// Returns the part to sign.
    pub(crate) fn to_be_signed(&self) -> Vec<u8> {
        let mut serial = self.serial;
        // Positive and without leading zeros.
        serial[0] = serial[0] & 0x7f | 0x40;
        sequence(&[
            &wrap(0xa0, &wrap(2, &[2])),
            &wrap(2, &serial),
            &ecdsa(),
            self.issuer,
            &sequence(&[&time(self.not_before), &time(self.not_after)]),
            self.subject,
            self.public_key,
            &extensions(self.purpose, self.alternative_names),
        ])
    }
}

/// Joins the signed part, the algorithm and the signature.
pub(crate) fn signed(to_be_signed: &[u8], signature: &[u8]) -> Vec<u8> {
    sequence(&[to_be_signed, &ecdsa(), &bit_string(signature)])
}
