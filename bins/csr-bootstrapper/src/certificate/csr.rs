//! Certificate request of this program: a key and a template. The stored key restores it; the name follows from both.

use std::{collections::BTreeMap, fmt};

use apiclient::{error::Result, resource::Resource};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::secret::Data;
use ring::{
    rand::SystemRandom,
    signature::{EcdsaKeyPair, KeyPair},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Value, json};
use sidecar::{
    der::signed,
    key::{new_key, no_key, pair_of},
};
use zeroize::Zeroizing;

use super::pkcs10::{Subject, content};
use crate::{
    identity::{AGENT_NAME, AgentNames, CLUSTER_NAME},
    sha256,
};

pub static CSRS: Resource =
    Resource::v1("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest");
/// The only signer whose certificates authenticate a user at an API server.
pub const KUBE_API_SERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Label of all objects of a managed cluster.
pub const CLUSTER_LABEL: &str = "open-cluster-management.io/cluster-name";

/// The content of a request, except for its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CsrTemplate {
    pub subject: Subject,
    pub dns_names: Vec<String>,
    pub signer: String,
    /// Prefix of the object's name; a hash of the unsigned request follows.
    pub name_prefix: String,
    /// The object's labels: only hints, because anybody could set them.
    pub labels: BTreeMap<&'static str, String>,
}

impl AgentNames {
    pub fn subject(&self) -> Subject {
        Subject { user: self.user(), groups: self.groups().into(), units: Vec::new() }
    }

    pub fn csr_template(&self) -> CsrTemplate {
        CsrTemplate {
            subject: self.subject(),
            dns_names: Vec::new(),
            signer: KUBE_API_SERVER_CLIENT.to_owned(),
            name_prefix: format!("{}-", self.cluster),
            labels: [(CLUSTER_LABEL, self.cluster.clone())].into(),
        }
    }
}

/// A key and the request for its certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// PEM of PKCS #8.
    pub key: Zeroizing<String>,
    /// The unsigned request: DER of CertificationRequestInfo, with the public key in it.
    content: Vec<u8>,
    /// Name of the object. It ends in a hash of the unsigned request, so that a second POST creates no second object.
    pub name: String,
}

/// Prints only the name: the key is secret.
impl fmt::Debug for CertificateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CertificateRequest({})", self.name)
    }
}

impl CertificateRequest {
    /// Creates a request with a new P-256 key.
    pub fn new(template: &CsrTemplate) -> Result<Self> {
        let key = to_pem("PRIVATE KEY", &new_key()?).into();
        Self::of_key(key, template).ok_or_else(|| no_key(()))
    }

    /// Returns the request of `template` with this key; `None` if it is not a P-256 key.
    pub fn of_key(key: Zeroizing<String>, template: &CsrTemplate) -> Option<Self> {
        let content =
            content(&template.subject, &template.dns_names, pair(&key)?.public_key().as_ref());
        let name = format!("{}{}", template.name_prefix, &sha256(&content)[..16]);
        Some(Self { key, content, name })
    }

    /// Returns the values of a Secret that restores the request after a restart.
    pub fn stored_texts<'a>(&'a self, names: &'a AgentNames) -> [(&'static str, &'a str); 4] {
        [
            ("tls.key", &self.key),
            ("csr-name", &self.name),
            (CLUSTER_NAME, &names.cluster),
            (AGENT_NAME, &names.agent),
        ]
    }

    /// Restores a request from such values; `None` if they are incomplete or for other names.
    pub fn of_secret(data: &Data, names: &AgentNames) -> Option<Self> {
        let text = |key: &str| str::from_utf8(data.get(key)?).ok().map(str::to_owned);
        let is_same = text(CLUSTER_NAME)? == names.cluster && text(AGENT_NAME)? == names.agent;
        let request = Self::of_key(text("tls.key")?.into(), &names.csr_template())?;
        (is_same && text("csr-name")? == request.name).then_some(request)
    }

    /// Returns the object, as in the Go agent (ocm `pkg/registration/register/csr/csr.go:429-482`).
    pub fn object(&self, template: &CsrTemplate, expiration: Option<u32>) -> Result<Value> {
        let mut spec = json!({
            "request": BASE64_STANDARD.encode(self.pem()?),
            "signerName": template.signer,
            "usages": ["digital signature", "key encipherment", "client auth"],
        });
        if let Some(seconds) = expiration {
            spec["expirationSeconds"] = json!(seconds);
        }
        Ok(json!({
            "apiVersion": CSRS.api_version(),
            "kind": CSRS.kind,
            "metadata": {"name": self.name, "labels": template.labels},
            "spec": spec,
        }))
    }

    /// Returns the PEM of PKCS #10 with a new signature.
    pub fn pem(&self) -> Result<String> {
        let pair = pair(&self.key).ok_or_else(|| no_key(()))?;
        let signature = pair.sign(&SystemRandom::new(), &self.content).map_err(no_key)?;
        Ok(to_pem("CERTIFICATE REQUEST", &signed(&self.content, signature.as_ref())))
    }
}

fn pair(pem: &str) -> Option<EcdsaKeyPair> {
    let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
    pair_of(key.secret_pkcs8_der())
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
pub(crate) mod tests;
