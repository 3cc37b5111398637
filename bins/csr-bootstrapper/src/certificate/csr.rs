//! Certificate request and its key: created, stored in a Secret, read back, and as an object on the hub.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use apiclient::{
    error::{Error, Result},
    resource::Resource,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::secret::Data;
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
        UnparsedPublicKey,
    },
};
use rustls_pki_types::{CertificateSigningRequestDer, PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Map, Value, json};
use x509_cert::{der::Decode, request::CertReq};
use zeroize::Zeroizing;

use super::{
    pkcs10::{content, own_certificate, public_key, signed},
    template::CsrTemplate,
};
use crate::{
    digest::sha256,
    identity::{AGENT_NAME, AgentNames, CLUSTER_NAME},
};

/// `certificates.k8s.io/v1` CertificateSigningRequest.
pub static CSRS: Resource =
    Resource::v1("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest");
/// The only signer whose certificates authenticate a user at an API server.
pub const KUBE_API_SERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Label of all objects of a managed cluster.
pub const CLUSTER_LABEL: &str = "open-cluster-management.io/cluster-name";

const KEY: &str = "PRIVATE KEY";
const REQUEST: &str = "CERTIFICATE REQUEST";

/// A key and the request for its certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// PEM of PKCS #8.
    pub key: Zeroizing<String>,
    /// PEM of PKCS #10.
    pub csr: String,
    /// Name of the object: it ends in a hash of the public key, so that posting it again creates no second one.
    pub name: String,
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
    pub fn new(template: &CsrTemplate) -> Result<Self> {
        let made = signed_by_new_key(&|point| content(template, point))?;
        Ok(Self {
            key: to_pem(KEY, &made.key).into(),
            csr: to_pem(REQUEST, &made.signed),
            name: name(template, &made.point),
        })
    }

    /// The values of a Secret that restores the request after a restart.
    pub fn secret_data(&self, names: &AgentNames) -> Map<String, Value> {
        let values = [
            ("tls.key", self.key.as_str()),
            ("tls.csr", &self.csr),
            ("csr-name", &self.name),
            (CLUSTER_NAME, &names.cluster),
            (AGENT_NAME, &names.agent),
        ];
        let encoded = |value| json!(BASE64_STANDARD.encode(value));
        values.into_iter().map(|(key, value)| (key.to_owned(), encoded(value))).collect()
    }

    /// Restores one from such values; `None` if they are incomplete or for other names.
    pub fn of_secret(data: &Data, names: &AgentNames) -> Option<Self> {
        let text = |key: &str| str::from_utf8(data.get(key)?).ok().map(str::to_owned);
        let request =
            Self { key: text("tls.key")?.into(), csr: text("tls.csr")?, name: text("csr-name")? };
        let same = text(CLUSTER_NAME)? == names.cluster && text(AGENT_NAME)? == names.agent;
        request.checked(&names.csr_template()).filter(|_| same)
    }

    /// The same, if name and request are those of this key for `template`.
    pub fn checked(self, template: &CsrTemplate) -> Option<Self> {
        self.is_whole(template).then_some(self)
    }

    /// The object, as the Go agent writes it (ocm `pkg/registration/register/csr/csr.go:429-482`).
    pub fn object(&self, template: &CsrTemplate, expiration: Option<u32>) -> Value {
        let mut spec = json!({
            "request": BASE64_STANDARD.encode(&self.csr),
            "signerName": template.signer,
            "usages": ["digital signature", "key encipherment", "client auth"],
        });
        if let Some(seconds) = expiration {
            spec["expirationSeconds"] = json!(seconds);
        }
        let labels: Map<_, _> =
            template.labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        json!({
            "apiVersion": CSRS.api_version(),
            "kind": CSRS.kind,
            "metadata": {"name": self.name, "labels": labels},
            "spec": spec,
        })
    }

    /// Returns whether name and request are those of this key for `template`. Each ECDSA signature is different, so
    /// it is taken out, verified and put back.
    fn is_whole(&self, template: &CsrTemplate) -> bool {
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.key.as_bytes()).ok();
        let pair = key.and_then(|key| pair(key.secret_pkcs8_der()));
        let csr = CertificateSigningRequestDer::from_pem_slice(self.csr.as_bytes());
        let (Some(pair), Ok(der)) = (pair, csr) else { return false };
        let point = pair.public_key().as_ref();
        let content = content(template, point);
        let Ok(read) = CertReq::from_der(&der) else { return false };
        let signature = read.signature.raw_bytes();
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
        self.name == name(template, point)
            && signed(&content, signature) == *der
            && key.verify(&content, signature).is_ok()
    }
}

/// ring gives no more detail.
fn no_key<E>(_: E) -> Error {
    Error::bad_config("no new key can be made: the system gives no random numbers")
}

/// A certificate for the program's own endpoint that signs itself, and its key, in DER: for this process alone.
///
/// # Errors
/// `BadConfig` when the system provides no random numbers.
pub fn self_signed() -> Result<(Vec<u8>, Zeroizing<Vec<u8>>)> {
    let made = signed_by_new_key(&|point| own_certificate("localhost", point))?;
    Ok((made.signed, made.key))
}

/// A new P-256 key, and what it has signed.
struct SignedByNewKey {
    /// PKCS #8.
    key: Zeroizing<Vec<u8>>,
    /// Its public point.
    point: Vec<u8>,
    /// DER.
    signed: Vec<u8>,
}

/// Makes a key and signs the content that `content` has for its public point.
fn signed_by_new_key(content: &dyn Fn(&[u8]) -> Vec<u8>) -> Result<SignedByNewKey> {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
    let key = key.map_err(no_key)?;
    let pair = pair(key.as_ref()).ok_or_else(|| no_key(()))?;
    let point = pair.public_key().as_ref().to_vec();
    let content = content(&point);
    let signature = pair.sign(&random, &content).map_err(no_key)?;
    let signed = signed(&content, signature.as_ref());
    Ok(SignedByNewKey { key: key.as_ref().to_vec().into(), point, signed })
}

fn pair(pkcs8: &[u8]) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &SystemRandom::new()).ok()
}

fn name(template: &CsrTemplate, point: &[u8]) -> String {
    format!("{}{}", template.name_prefix, &sha256(&public_key(point))[..16])
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

#[cfg(test)]
pub mod authority;
#[cfg(test)]
mod tests;
