//! Certificate request and its key: created, stored in a Secret, read back, and as an object on the hub.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
        UnparsedPublicKey,
    },
};
use rustls_pki_types::{CertificateSigningRequestDer, PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Map, Value, json};
use shared::{
    error::{Error, Result},
    resource::Resource,
    secret::Data,
};
use x509_cert::{
    der::{Decode, Tag, Tagged, asn1::ObjectIdentifier},
    request::CertReq,
};
use zeroize::Zeroizing;

use crate::identity::{AGENT_NAME, AgentNames, CLUSTER_NAME};

/// `certificates.k8s.io/v1` CertificateSigningRequest.
pub(crate) static CSRS: Resource =
    Resource::v1("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest");
/// The only signer whose certificates authenticate a user at an API server.
pub(crate) const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Label of all objects of a managed cluster.
pub(crate) const CLUSTER_LABEL: &str = "open-cluster-management.io/cluster-name";

const KEY: &str = "PRIVATE KEY";
const REQUEST: &str = "CERTIFICATE REQUEST";

/// A key and the request for its certificate.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CertificateRequest {
    /// PEM of PKCS #8.
    pub(crate) key: Zeroizing<String>,
    /// PEM of PKCS #10.
    pub(crate) csr: String,
    /// Name of the object: the cluster and a hash of the public key, so that posting it again creates no
    /// second one.
    pub(crate) name: String,
}

/// Only the name: the key is secret.
impl fmt::Debug for CertificateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CertificateRequest({})", self.name)
    }
}

impl Hash for CertificateRequest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl CertificateRequest {
    /// Creates one with a new P-256 key.
    ///
    /// # Errors
    /// `BadConfig` when the system provides no random numbers.
    pub(crate) fn new(names: &AgentNames) -> Result<Self> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
        let key = key.map_err(no_key)?;
        let pair = pair(key.as_ref()).ok_or_else(|| no_key(()))?;
        let content = content(names, pair.public_key().as_ref());
        let signature = pair.sign(&random, &content).map_err(no_key)?;
        Ok(Self {
            key: to_pem(KEY, key.as_ref()).into(),
            csr: to_pem(REQUEST, &signed(&content, signature.as_ref())),
            name: name(names, pair.public_key().as_ref()),
        })
    }

    /// The values of a Secret that restores the request after a restart.
    pub(crate) fn secret_data(&self, names: &AgentNames) -> Map<String, Value> {
        [
            ("tls.key", self.key.as_str()),
            ("tls.csr", &self.csr),
            ("csr-name", &self.name),
            (CLUSTER_NAME, &names.cluster),
            (AGENT_NAME, &names.agent),
        ]
        .map(|(key, value)| (key.to_owned(), json!(BASE64_STANDARD.encode(value))))
        .into_iter()
        .collect()
    }

    /// Restores one from such values; `None` if they are incomplete or for other names.
    pub(crate) fn of_secret(data: &Data, names: &AgentNames) -> Option<Self> {
        let text = |key: &str| str::from_utf8(data.get(key)?).ok().map(str::to_owned);
        let request =
            Self { key: text("tls.key")?.into(), csr: text("tls.csr")?, name: text("csr-name")? };
        let same = text(CLUSTER_NAME)? == names.cluster && text(AGENT_NAME)? == names.agent;
        (same && request.is_whole(names)).then_some(request)
    }

    /// The object, as the Go agent writes it (ocm `pkg/registration/register/csr/csr.go:429-482`).
    pub(crate) fn object(&self, cluster: &str, expiration: Option<u32>) -> Value {
        let mut spec = json!({
            "request": BASE64_STANDARD.encode(&self.csr),
            "signerName": SIGNER,
            "usages": ["digital signature", "key encipherment", "client auth"],
        });
        if let Some(seconds) = expiration {
            spec["expirationSeconds"] = json!(seconds);
        }
        json!({
            "apiVersion": CSRS.api_version(),
            "kind": CSRS.kind,
            "metadata": {"name": self.name, "labels": {CLUSTER_LABEL: cluster}},
            "spec": spec,
        })
    }

    /// Returns whether name and request are those of this key for `names`. Each ECDSA signature is different, so it
    /// is taken out, verified and put back.
    fn is_whole(&self, names: &AgentNames) -> bool {
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.key.as_bytes()).ok();
        let pair = key.and_then(|key| pair(key.secret_pkcs8_der()));
        let csr = CertificateSigningRequestDer::from_pem_slice(self.csr.as_bytes());
        let (Some(pair), Ok(der)) = (pair, csr) else { return false };
        let point = pair.public_key().as_ref();
        let content = content(names, point);
        let Ok(read) = CertReq::from_der(&der) else { return false };
        let signature = read.signature.raw_bytes();
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
        self.name == name(names, point)
            && signed(&content, signature) == *der
            && key.verify(&content, signature).is_ok()
    }
}

/// Returns whether the request in `pem`, written by anybody, is for exactly this user.
pub(crate) fn asks_for(pem: &str, user: &str) -> bool {
    let Ok(der) = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()) else {
        return false;
    };
    let Ok(request) = CertReq::from_der(&der) else { return false };
    // Go writes a PrintableString if the letters allow it.
    let is_text = |tag| matches!(tag, Tag::Utf8String | Tag::PrintableString);
    request.info.subject.iter().any(|part| {
        part.oid == COMMON_NAME_OID
            && is_text(part.value.tag())
            && part.value.value() == user.as_bytes()
    })
}

/// ring gives no more detail.
fn no_key<E>(_: E) -> Error {
    Error::bad_config("no new key can be made: the system gives no random numbers")
}

fn pair(pkcs8: &[u8]) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &SystemRandom::new()).ok()
}

fn name(names: &AgentNames, point: &[u8]) -> String {
    let hash = digest(&SHA256, &public_key(point));
    let hash: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hash}", names.cluster)
}

fn to_pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for (index, letter) in text.chars().enumerate() {
        pem.extend((index > 0 && index % 64 == 0).then_some('\n'));
        pem.push(letter);
    }
    pem + &format!("\n-----END {label}-----\n")
}

// DER by hand: rcgen cannot write two O's, and x509-cert builds a Name only with its feature hazmat.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]`, constructed.
const ATTRIBUTES: u8 = 0xa0;

/// Object identifier of the user in a subject.
const COMMON_NAME_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

/// CertificationRequestInfo: the signed part (RFC 2986, section 4.1).
fn content(names: &AgentNames, point: &[u8]) -> Vec<u8> {
    let groups = names.groups().map(|group| part(ORGANIZATION, &group)).concat();
    let subject = wrap(SEQUENCE, &[groups, part(COMMON_NAME, &names.user())].concat());
    let parts = [wrap(INTEGER, &[0]), subject, public_key(point), wrap(ATTRIBUTES, &[])];
    wrap(SEQUENCE, &parts.concat())
}

/// The content with its signature.
fn signed(content: &[u8], signature: &[u8]) -> Vec<u8> {
    wrap(SEQUENCE, &[content, &ecdsa(), &bits(signature)].concat())
}

fn ecdsa() -> Vec<u8> {
    wrap(SEQUENCE, &wrap(OBJECT_IDENTIFIER, ECDSA_SHA256))
}

/// SubjectPublicKeyInfo of an uncompressed point (RFC 5480).
fn public_key(point: &[u8]) -> Vec<u8> {
    let kind = [wrap(OBJECT_IDENTIFIER, EC_PUBLIC_KEY), wrap(OBJECT_IDENTIFIER, P256)].concat();
    wrap(SEQUENCE, &[wrap(SEQUENCE, &kind), bits(point)].concat())
}

/// One part of a name: a set of one attribute.
fn part(kind: &[u8], text: &str) -> Vec<u8> {
    let attribute = [wrap(OBJECT_IDENTIFIER, kind), wrap(UTF8_STRING, text.as_bytes())];
    wrap(SET, &wrap(SEQUENCE, &attribute.concat()))
}

/// A bit string of whole bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    wrap(BIT_STRING, &[&[0], bytes].concat())
}

/// One value with its tag and length, which is below 64 KiB: names have at most 63 and 253 letters.
fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    let head = match content.len() {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head[..], content].concat()
}

#[cfg(test)]
pub(crate) mod authority;
#[cfg(test)]
mod tests;
