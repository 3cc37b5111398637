//! Ledger of deletions: a ConfigMap in the program's namespace. What a [`gate`](crate::sync::gate) counts survives a
//! restart there, and a person allows more: `allow.<remote>` with a number.

use std::{
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    error::Result,
    json,
    lock::lock,
    time::{micro_time, parse_micro_time},
};
use serde_json::{Value, json};

use crate::{
    cache::cluster::ClusterClient,
    connection::{Ask, StateMap},
    model::{discovery::ResourceArg, key::PerKind},
    sync::{gate::DeletionGate, remote::RemoteSync},
};

/// Memory that a remote's record may cost, in bytes: it has a few dozen numbers for each kind.
const RECORD: usize = 256 << 10;

/// The ConfigMap.
pub(crate) struct Ledger {
    cluster: Arc<ClusterClient>,
    map: StateMap,
    kinds: PerKind<ResourceArg>,
    /// Held while it is written: a later state is written later.
    writing: Mutex<()>,
}

impl Ledger {
    pub(crate) fn new(
        cluster: Arc<ClusterClient>,
        place: (String, String),
        kinds: PerKind<ResourceArg>,
    ) -> Self {
        let map = StateMap::new(place, "deletions are not counted across restarts");
        Self { cluster, map, kinds, writing: Mutex::default() }
    }

    /// The command that lets this many deletions of a remote pass.
    pub(crate) fn command(&self, remote: &str, number: usize) -> String {
        self.map.command(&format!("allow.{remote}"), Some(&number.to_string()))
    }

    /// Lets the remote's gate know what earlier processes counted, once, and what people allowed since. Returns
    /// whether they allowed anything.
    ///
    /// # Errors
    /// The request's. A missing right or namespace is none: then nothing survives a restart, which is logged.
    pub(crate) fn read(&self, remote: &RemoteSync) -> Result<bool> {
        let ask: Ask<'_> = &|request| self.cluster.ask(&remote.stop, request);
        let map = match self.map.read(ask)? {
            // There is something to allow things in, whoever writes first.
            Some(Value::Null) => self.map.merge(ask, &json!({"data": {}}))?,
            map => map,
        };
        let Some(map) = map else { return Ok(false) };
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
        self.map.merge(ask, &patch)?;
        lock(&remote.gate).allow(allowed);
        log::info!(remote = remote.name.as_str(), count = allowed; "deletions allowed");
        Ok(true)
    }

    /// Records what the remote's gate let pass, before it happens.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn record(&self, remote: &RemoteSync) -> Result<()> {
        if self.map.is_unusable() {
            return Ok(());
        }
        let _writing = lock(&self.writing);
        let patch = json!({"data": {&remote.name: self.text(&lock(&remote.gate))}});
        self.map.merge(&|request| self.cluster.ask(&remote.stop, request), &patch).map(drop)
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
