//! Environment of a certificate: both clusters through [`Io`], and guarded writes of Secrets. The server refuses a
//! write if the Secret has changed.

use std::{collections::BTreeMap, mem, time::Instant};

use apiclient::{
    client::Client,
    error::{Error, Result, optional},
    resource::{SECRETS, Target},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::{
    Hub,
    secret::{self, Data},
};
use log::Level;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::{
    csr::{CertificateRequest, CsrTemplate},
    validate::{Need, Validation},
};
use crate::clocks::Clocks;

/// The manifests of the program's own Secrets, without content.
const SECRETS_BASE: &str = "manifests/csr-bootstrapper/secrets";

/// The requester's view of both clusters.
pub(crate) trait Io {
    /// Creates a request; `why` is a sentence.
    fn new_request(&mut self, why: &str) -> Result<CertificateRequest>;
    /// Returns the stored request; reads it again if it may have changed.
    fn stored(&mut self) -> Result<Option<CertificateRequest>>;
    /// Stores `request`, or removes the request. Fails if another writer was faster; [`Self::stored`] has its request.
    fn store(&mut self, request: Option<&CertificateRequest>) -> Result<()>;
    /// Returns the number of the requester's pending CSRs, up to the limit.
    fn pending(&mut self) -> Result<usize>;
    fn csr(&mut self, name: &str) -> Result<Option<Value>>;
    /// Posts the CSR. `AlreadyExists` means that an earlier attempt arrived.
    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()>;
    /// Saves a certificate with its key, if `issued`, and always the values next to them.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()>;
    /// Returns the clocks for the requester's hub, by its last answer.
    fn clocks(&self) -> Clocks;
    /// Reports a step, for Events, logs and metrics; `reason` is the Event's.
    fn notify(&mut self, level: Level, reason: &'static str, message: String);
}

/// The identity that requests, and the hub.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Requester {
    /// Whether it is the agent's own identity, which the hub approves without a human, and not the bootstrap identity.
    pub(crate) is_agent: bool,
    pub(crate) hub: Hub,
}

/// Input of one step: what is known, and the clusters.
pub(crate) struct CertificateContext<'a> {
    pub(crate) io: &'a mut dyn Io,
    /// `Secret ns/name`, for sentences.
    pub(crate) secret: &'a str,
    pub(crate) need: &'a Need,
    pub(crate) validation: &'a Validation,
    /// `tls.key` of the Secret.
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) requester: Option<&'a Requester>,
    pub(crate) template: &'a CsrTemplate,
    /// The agent's own user.
    pub(crate) agent: &'a str,
    pub(crate) now: Instant,
    /// Uniform in [0, 1).
    pub(crate) random: f64,
}

impl CertificateContext<'_> {
    pub(super) fn is_saved(&self, request: &CertificateRequest) -> bool {
        self.key == Some(request.key.as_bytes())
    }

    /// Returns the command that approves the CSR, to end a sentence; empty if the hub approves it for the agent itself.
    pub(super) fn approve(&self, name: &str) -> String {
        match self.requester {
            Some(requester) if !requester.is_agent => {
                format!(": kubectl certificate approve {name}")
            }
            _ => String::new(),
        }
    }
}

/// Values by key; `None` removes a key.
pub(crate) type SecretValues = BTreeMap<String, Option<Zeroizing<Vec<u8>>>>;

pub(crate) fn value(content: impl Into<Vec<u8>>) -> Option<Zeroizing<Vec<u8>>> {
    Some(content.into().into())
}

/// Returns whether a write failed because the object has changed since it was read.
pub(crate) fn has_changed(error: &Error) -> bool {
    matches!(error, Error::Conflict(_) | Error::AlreadyExists(_) | Error::NotFound(_))
}

/// Store of pending requests, in a Secret that outlives restarts: the cluster's, and the add-ons' with the names of
/// their Secrets. Each owner has its own store, and writes only its own keys.
pub(crate) struct RequestStore {
    client: Client,
    namespace: String,
    name: String,
    /// The Secret as last read or written.
    secret: Option<Value>,
    data: Data,
    /// Whether the Secret was not read yet, or a write failed that may have reached the server.
    is_stale: bool,
}

impl RequestStore {
    pub(crate) fn new(client: Client, namespace: String, name: String) -> Self {
        Self { client, namespace, name, secret: None, data: Data::new(), is_stale: true }
    }

    /// Returns the content; reads it again if own keys may have changed.
    pub(crate) fn read(&mut self) -> Result<&Data> {
        if self.is_stale {
            let secret = optional(self.client.get(&self.target()))?;
            self.set(secret)?;
        }
        Ok(&self.data)
    }

    fn set(&mut self, secret: Option<Value>) -> Result<()> {
        let data = secret.as_ref().map(secret::data).transpose()?;
        (self.secret, self.data, self.is_stale) = (secret, data.unwrap_or_default(), false);
        Ok(())
    }

    /// Writes these values. `Conflict`, `AlreadyExists` and `NotFound` mean that another process may have changed one
    /// of the keys since they were read. The Secret is never deleted: to create it again, the agent would need a
    /// permission that yields the token of any ServiceAccount in the namespace.
    pub(crate) fn write(&mut self, values: &SecretValues) -> Result<()> {
        let Err(error) = self.write_once(values) else { return Ok(()) };
        if !has_changed(&error) {
            return Err(error);
        }
        // Other owners write their keys at any time.
        let known = mem::take(&mut self.data);
        let data = self.read()?;
        match values.keys().all(|key| data.get(key) == known.get(key)) {
            true => self.write_once(values),
            false => Err(error),
        }
    }

    fn write_once(&mut self, values: &SecretValues) -> Result<()> {
        // A write may succeed without an answer.
        self.is_stale = true;
        let (target, known) = (self.target(), self.secret.as_ref());
        let secret = save(&self.client, &target, known, values)
            .map_err(|error| with_remedy(&target, known.is_some(), error))?;
        self.set(Some(secret))
    }

    pub(crate) fn target(&self) -> Target<'_> {
        SECRETS.object(&self.namespace, &self.name)
    }
}

/// Adds the remedy to the error of a refused write; `exists` says whether the Secret exists.
pub(super) fn with_remedy(target: &Target<'_>, exists: bool, error: Error) -> Error {
    match error {
        Error::Immutable(_) => Error::Immutable(format!(
            "{target} is immutable: delete it, and apply {SECRETS_BASE} again"
        )),
        Error::Forbidden(message) if !exists => {
            let what = format!("{target} does not exist: apply {SECRETS_BASE}");
            Error::Forbidden(format!("{what} ({message})"))
        }
        error => error,
    }
}

pub(crate) fn values_of(issued: Option<(&[u8], &CertificateRequest)>) -> SecretValues {
    let Some((pem, request)) = issued else { return SecretValues::new() };
    [("tls.crt", value(pem)), ("tls.key", value(request.key.as_bytes()))]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
}

/// Saves `values` with a single write, unless the Secret has changed since `seen`; other keys stay.
pub(crate) fn save(
    client: &Client,
    target: &Target<'_>,
    seen: Option<&Value>,
    values: &SecretValues,
) -> Result<Value> {
    match seen {
        Some(secret) => client.replace(target, &merged(secret.clone(), values)),
        None => {
            let metadata = json!({"name": target.name, "namespace": target.namespace});
            let new = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
            client.create(target, &merged(new, values))
        }
    }
}

fn merged(mut secret: Value, values: &SecretValues) -> Value {
    let mut data = match secret["data"].take() {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    for (key, value) in values {
        match value {
            Some(value) => drop(data.insert(key.clone(), json!(BASE64_STANDARD.encode(value)))),
            None => drop(data.remove(key)),
        }
    }
    secret["data"] = Value::Object(data);
    secret
}

#[cfg(test)]
mod tests {
    use apiclient::client::{Reload, Timeouts};
    use dev_apiserver::{Options, Server};

    use super::*;

    #[test]
    fn store_yields_to_another_process_and_shares_with_others() {
        let server = Server::start(Options::default()).unwrap();
        let config = Data::from([("kubeconfig".into(), server.kubeconfig().into_bytes().into())]);
        let config = kubeconfig::from_secret("x", &config).unwrap();
        let client =
            Client::new("x", config, Reload::Never, Timeouts::with_request(Timeouts::REQUEST));
        let client = client.unwrap();
        let store = || {
            let mut store = RequestStore::new(client.clone(), "default".into(), "x".into());
            store.read().unwrap();
            store
        };
        let values = |key: &str, text| SecretValues::from([(key.to_owned(), value(text))]);
        let [mut cluster, mut addons, mut twin] = [store(), store(), store()];
        cluster.write(&values("a", "1")).unwrap();
        addons.write(&values("b", "2")).unwrap();
        let refused = |written: Result<()>| has_changed(&written.unwrap_err());
        assert!(refused(twin.write(&values("a", "3"))));
        assert_eq!(**twin.read().unwrap()["a"], *b"1");
        twin.write(&values("a", "3")).unwrap();
        assert!(refused(cluster.write(&[("a".to_owned(), None)].into())));
        addons.write(&values("b", "4")).unwrap();
        let both = ["a", "b"].map(|key| store().read().unwrap()[key].to_vec());
        assert_eq!(both, [b"3", b"4"]);
    }

    #[test]
    fn a_save_keeps_what_is_not_its_own() {
        let metadata = json!({"name": "x", "resourceVersion": "7", "labels": {"a": "b"}});
        let values = [("tls.crt", value("new")), ("old", None)];
        let values = values.map(|(key, value)| (key.to_owned(), value)).into();
        for (before, after) in [
            (
                json!({"theirs": "aGk=", "tls.crt": "b2xk", "old": ""}),
                json!({"theirs": "aGk=", "tls.crt": "bmV3"}),
            ),
            (json!(null), json!({"tls.crt": "bmV3"})),
            (json!("x"), json!({"tls.crt": "bmV3"})),
        ] {
            let secret = json!({"metadata": metadata, "data": before, "type": "Opaque"});
            let expected = json!({"metadata": metadata, "data": after, "type": "Opaque"});
            assert_eq!(merged(secret, &values), expected);
        }
    }
}
