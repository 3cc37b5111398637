//! CSRs: the request of this program, which is a key and what is asked for it, and the CSRs of a cluster on a hub.
//!
//! Of a request the key alone is stored; the name follows from the rest. A watch of versions says which CSR has
//! changed, a GET what it is.

use std::{
    collections::BTreeMap,
    fmt,
    ops::ControlFlow,
    sync::Mutex,
    time::{Duration, Instant},
};

use apiclient::{
    client::Client,
    error::{Error, Result, optional},
    json::Document,
    lock::lock,
    reflector::{Lookup, Store},
    resource::Resource,
    stop::Stop,
    watch::{self, Selection},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::secret::Data;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Value, json};
use sidecar::runtime;
use zeroize::Zeroizing;

use super::{
    csr_status::{MAX_PENDING, is_pending},
    pkcs10::{Subject, content, signed},
};
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

/// A CSR is read this often while no watch is open, because of rights or a proxy.
const REREAD_INTERVAL: Duration = Duration::from_secs(15);
/// Versions of more CSRs are not kept: these are read as often as without a watch.
const MAX_CSRS: usize = 1000;
/// Digits of a resourceVersion, a number of 64 bits.
const MAX_VERSION: usize = 20;
/// Nobody waits for an older read: a step reads again.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// More reads are not kept: these CSRs are read at each step.
const MAX_READS: usize = 100;
/// Memory limit for a CSR, in bytes: with a long chain it has some 20 KiB.
const MAX_CSR: usize = 64 << 10;

/// What a request asks for, whatever its key is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CsrTemplate {
    pub subject: Subject,
    pub dns_names: Vec<String>,
    pub signer: String,
    /// Begin of the object's name; a hash of the key follows.
    pub name_prefix: String,
    /// The object's labels: hints, which anybody could set.
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
    /// Name of the object: it ends in a hash of the unsigned request, so that posting it again creates no second one.
    pub name: String,
}

/// Only the name: the key is secret.
impl fmt::Debug for CertificateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CertificateRequest({})", self.name)
    }
}

impl CertificateRequest {
    /// Creates one with a new P-256 key.
    pub fn new(template: &CsrTemplate) -> Result<Self> {
        let key = to_pem("PRIVATE KEY", &new_key()?).into();
        Self::of_key(key, template).ok_or_else(|| no_key(()))
    }

    /// The request of `template` with this key; `None` for any other than a P-256 key.
    pub fn of_key(key: Zeroizing<String>, template: &CsrTemplate) -> Option<Self> {
        let content =
            content(&template.subject, &template.dns_names, pair(&key)?.public_key().as_ref());
        let name = format!("{}{}", template.name_prefix, &sha256(&content)[..16]);
        Some(Self { key, content, name })
    }

    /// The values of a Secret that restores the request after a restart.
    pub fn stored_texts<'a>(&'a self, names: &'a AgentNames) -> [(&'static str, &'a str); 4] {
        [
            ("tls.key", &self.key),
            ("csr-name", &self.name),
            (CLUSTER_NAME, &names.cluster),
            (AGENT_NAME, &names.agent),
        ]
    }

    /// Restores one from such values; `None` if they are incomplete or for other names.
    pub fn of_secret(data: &Data, names: &AgentNames) -> Option<Self> {
        let text = |key: &str| str::from_utf8(data.get(key)?).ok().map(str::to_owned);
        let is_same = text(CLUSTER_NAME)? == names.cluster && text(AGENT_NAME)? == names.agent;
        let request = Self::of_key(text("tls.key")?.into(), &names.csr_template())?;
        (is_same && text("csr-name")? == request.name).then_some(request)
    }

    /// The object, as the Go agent writes it (ocm `pkg/registration/register/csr/csr.go:429-482`).
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

    /// PEM of PKCS #10 with a new signature.
    pub fn pem(&self) -> Result<String> {
        let pair = pair(&self.key).ok_or_else(|| no_key(()))?;
        let signature = pair.sign(&SystemRandom::new(), &self.content).map_err(no_key)?;
        Ok(to_pem("CERTIFICATE REQUEST", &signed(&self.content, signature.as_ref())))
    }
}

/// PKCS #8 of a new P-256 key.
pub(crate) fn new_key() -> Result<Zeroizing<Vec<u8>>> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
    Ok(key.map_err(no_key)?.as_ref().to_vec().into())
}

/// ring hides the cause.
pub(crate) fn no_key<E>(_: E) -> Error {
    Error::bad_config("no new key can be made: the system gives no random numbers")
}

fn pair(pem: &str) -> Option<EcdsaKeyPair> {
    let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
    pair_of(key.secret_pkcs8_der())
}

pub(crate) fn pair_of(pkcs8: &[u8]) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &SystemRandom::new()).ok()
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

/// The CSRs of one cluster, through one client; the watch is open from the first read on.
pub(crate) struct CsrClient {
    pub(crate) client: Client,
    labels: String,
    stop: Stop,
    process: Stop,
    versions: Mutex<Option<Store<String>>>,
    reads: Mutex<BTreeMap<String, Read>>,
}

struct Read {
    csr: Option<Value>,
    /// The version before it: a later one makes it stale.
    version: Lookup<String>,
    at: Instant,
}

impl CsrClient {
    /// Wakes `process` when a CSR has changed; ends with it, or when it is [closed](Self::close).
    pub(crate) fn new(client: Client, cluster: &str, process: &Stop) -> Self {
        let (stop, process) = (process.child(), process.clone());
        let labels = format!("{CLUSTER_LABEL}={cluster}");
        let (versions, reads) = (Mutex::default(), Mutex::default());
        Self { client, labels, stop, process, versions, reads }
    }

    /// The CSR `name`. It is read again only after a change, or from time to time while no watch is open.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Value>> {
        let (version, now) = (self.version(name)?, Instant::now());
        if let Some(read) = lock(&self.reads).get(name).filter(|it| it.is_fresh(&version, now)) {
            return Ok(read.csr.clone());
        }
        let csr = optional(self.client.limited_to(MAX_CSR).get(&CSRS.cluster_object(name)))?;
        let mut reads = lock(&self.reads);
        reads.retain(|_, read| now < read.at + MAX_AGE);
        if reads.len() < MAX_READS {
            reads.insert(name.to_owned(), Read { csr: csr.clone(), version, at: now });
        }
        Ok(csr)
    }

    /// Posts the CSR; the next [`Self::get`] reads it.
    pub(crate) fn create(
        &self,
        request: &CertificateRequest,
        template: &CsrTemplate,
        expiration: Option<u32>,
    ) -> Result<()> {
        lock(&self.reads).remove(&request.name);
        let object = request.object(template, expiration)?;
        self.client.create(&CSRS.cluster_object(&request.name), &object).map(|_| ())
    }

    /// The number of pending CSRs of `template`, up to the limit; 0 without the right to list them.
    pub(crate) fn pending(&self, template: &CsrTemplate) -> Result<usize> {
        let mut pending = 0;
        let all = Selection::all(CSRS.everywhere());
        let selection = Selection { labels: &self.labels, ..all };
        let listed = watch::list(&self.client, &selection, &self.stop, &mut |csr| {
            if let Document::Whole(object) = &csr {
                pending += usize::from(is_pending(object, template));
            }
            match pending < MAX_PENDING {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        match listed {
            Err(error @ Error::Forbidden(_)) => {
                log::info!(labels = self.labels, error:% = error; "pending CSRs are not counted");
                Ok(0)
            }
            listed => listed.map(|_| pending),
        }
    }

    pub(crate) fn close(&self) {
        self.stop.raise();
        self.client.close();
    }

    /// Why CSRs may have changed unseen, for `/readyz`.
    pub(crate) fn last_error(&self) -> Option<String> {
        lock(&self.versions).as_ref()?.last_error()
    }

    /// The version of a CSR by the watch, which is opened if it is not.
    fn version(&self, name: &str) -> Result<Lookup<String>> {
        let mut open = lock(&self.versions);
        let versions = open.take().map_or_else(|| self.watch(), Ok)?;
        let versions = open.insert(versions);
        Ok(if versions.last_error().is_none() { versions.get(name) } else { Lookup::Unknown })
    }

    fn watch(&self) -> Result<Store<String>> {
        let versions = Store::new(MAX_CSRS);
        let watched = versions.clone();
        let (client, labels) = (self.client.clone(), self.labels.clone());
        let (stop, process) = (self.stop.clone(), self.process.clone());
        runtime::spawn("csrs", move || {
            let all = Selection::all(CSRS.everywhere());
            let selection = Selection { labels: &labels, metadata_only: true, ..all };
            let version = |csr: Value| {
                let version = csr["metadata"]["resourceVersion"].as_str()?;
                (version.len() <= MAX_VERSION).then(|| version.to_owned())
            };
            watched.run(&client, &selection, &stop, &mut { version }, &mut || process.wake());
        })?;
        Ok(versions)
    }
}

impl Read {
    fn is_fresh(&self, version: &Lookup<String>, now: Instant) -> bool {
        let is_watched = match version {
            Lookup::Object(_) => true,
            // A hub that changes labels hides a CSR from the watch.
            Lookup::Absent => self.csr.is_none(),
            Lookup::Unknown | Lookup::Invalid => false,
        };
        self.version == *version && (is_watched || now < self.at + REREAD_INTERVAL)
    }
}

#[cfg(test)]
pub(crate) mod tests;
