//! Ledger of deletions: a ConfigMap in the program's namespace. What a [`gate`](crate::sync::gate) counts survives a
//! restart there, and a person allows more: `allow.<remote>` with a number.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};
use shared::{
    client::Patch,
    error::{Error, Result},
    json,
    lock::lock,
    resource::{CONFIGMAPS, Target},
    time::{micro_time, parse_micro_time},
};

use crate::{
    cache::cluster::ClusterClient,
    model::{discovery::ResourceArg, key::PerKind},
    sync::{gate::DeletionGate, remote::RemoteSync},
};

/// Memory that a remote's record may cost, in bytes: it has a few dozen numbers for each kind.
const RECORD: usize = 256 << 10;

/// The ConfigMap.
pub(crate) struct Ledger {
    cluster: Arc<ClusterClient>,
    namespace: String,
    name: String,
    kinds: PerKind<ResourceArg>,
    /// Held while it is written: a later state is written later.
    writing: Mutex<()>,
    /// A right is missing, or the namespace is.
    unusable: AtomicBool,
}

impl Ledger {
    pub(crate) fn new(
        cluster: Arc<ClusterClient>,
        (namespace, name): (String, String),
        kinds: PerKind<ResourceArg>,
    ) -> Self {
        let (writing, unusable) = (Mutex::default(), AtomicBool::default());
        Self { cluster, namespace, name, kinds, writing, unusable }
    }

    /// The command that lets this many deletions of a remote pass.
    pub(crate) fn command(&self, remote: &str, number: usize) -> String {
        let Self { namespace, name, .. } = self;
        format!(
            "kubectl -n {namespace} patch configmap {name} --type merge -p '{{\"data\":{{\"allow.{remote}\":\"{number}\"}}}}'"
        )
    }

    /// Lets the remote's gate know what earlier processes counted, once, and what people allowed since. Returns
    /// whether they allowed anything.
    ///
    /// # Errors
    /// The request's. A missing right or namespace is none: then nothing survives a restart, which is logged.
    pub(crate) fn read(&self, remote: &RemoteSync) -> Result<bool> {
        let map = match self.cluster.ask(&remote.stop, &|client| client.get(&self.place())) {
            // There is something to allow things in, whoever writes first.
            Err(Error::NotFound(_)) => self.create(remote).map(|()| Value::Null),
            result => result,
        };
        let Some(map) = self.usable(map)? else { return Ok(false) };
        let _writing = lock(&self.writing);
        if !remote.restored.swap(true, Relaxed) {
            let text = map["data"][&remote.name].as_str().unwrap_or_default();
            let record = json::parse(text.as_bytes(), RECORD).unwrap_or_default();
            self.restore(&record, remote);
        }
        let key = format!("allow.{}", remote.name);
        let allowed = map["data"][&key].as_str().and_then(|number| number.trim().parse().ok());
        let Some(allowed) = allowed else { return Ok(false) };
        let mut gate = lock(&remote.gate).clone();
        gate.allow(allowed);
        let patch = json!({
            // Taken once only, also if the answer is lost.
            "metadata": {"resourceVersion": map["metadata"]["resourceVersion"]},
            "data": {&key: null, &remote.name: self.text(&gate)},
        });
        self.cluster.ask(&remote.stop, &|c| c.patch(&self.place(), Patch::Merge, &patch))?;
        lock(&remote.gate).allow(allowed);
        log::info!(remote = remote.name.as_str(), count = allowed; "deletions allowed");
        Ok(true)
    }

    /// Records what the remote's gate let pass, before it happens.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn record(&self, remote: &RemoteSync) -> Result<()> {
        if self.unusable.load(Relaxed) {
            return Ok(());
        }
        let _writing = lock(&self.writing);
        let patch = json!({"data": {&remote.name: self.text(&lock(&remote.gate))}});
        let written =
            self.cluster.ask(&remote.stop, &|c| c.patch(&self.place(), Patch::Merge, &patch));
        self.usable(written).map(drop)
    }

    fn create(&self, remote: &RemoteSync) -> Result<()> {
        let Self { namespace, name, .. } = self;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace}});
        match self.cluster.ask(&remote.stop, &|client| client.create(&self.place(), &map)) {
            Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The result, or nothing where the ConfigMap cannot be used at all.
    fn usable<T>(&self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => {
                self.unusable.store(false, Relaxed);
                Ok(Some(value))
            }
            Err(
                error @ (Error::Forbidden(_)
                | Error::NotFound(_)
                | Error::NotServed(_)
                | Error::Invalid(_)
                | Error::NamespaceTerminating(_)
                | Error::TooLarge(_)),
            ) => {
                if !self.unusable.swap(true, Relaxed) {
                    log::warn!(error:% = error; "deletions are not counted across restarts");
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn place(&self) -> Target<'_> {
        CONFIGMAPS.object(&self.namespace, &self.name)
    }

    /// What a gate counts, as text.
    fn text(&self, gate: &DeletionGate) -> String {
        let now = SystemTime::now();
        let deleted = gate.recent(Instant::now()).into_iter().map(|(counted, age, number)| {
            let kind = counted.map(|kind| self.kinds[kind].to_string());
            let at = micro_time(now.checked_sub(age).unwrap_or(now));
            json!({"kind": kind, "at": at, "number": number})
        });
        json!({"allowed": gate.allowed(), "deleted": deleted.collect::<Vec<_>>()}).to_string()
    }

    fn restore(&self, record: &Value, remote: &RemoteSync) {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let mut gate = lock(&remote.gate);
        for entry in record["deleted"].as_array().into_iter().flatten() {
            let counted = match entry["kind"].as_str() {
                None => None,
                Some(name) => match self.kinds.iter().find(|(_, kind)| kind.to_string() == name) {
                    Some((kind, _)) => Some(kind),
                    None => continue,
                },
            };
            let at = entry["at"].as_str().and_then(parse_micro_time);
            // A time to come is of another clock: it counts as new.
            let age = at.and_then(|at| wall.duration_since(at).ok()).unwrap_or(Duration::ZERO);
            let number = entry["number"].as_u64().unwrap_or(1);
            gate.restore(counted, age, number.try_into().unwrap_or(usize::MAX), now);
        }
        gate.allow(record["allowed"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or(0));
    }
}
