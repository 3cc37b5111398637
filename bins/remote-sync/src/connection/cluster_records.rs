//! Records of known clusters, in a ConfigMap on the local cluster. Admits a cluster that answers as a remote, or
//! refuses it and tells how a person can accept it.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    client::{Client, Patch},
    error::{Error, Result, optional},
    lock::lock,
    resource::{CONFIGMAPS, Target},
    stop::Stop,
    time::{micro_time, parse_micro_time},
};
use serde_json::{Value, json};

use crate::{
    connection::Connection,
    model::{
        annotations::Uid,
        known_clusters::{ClusterRecord, KnownClusters, OWN, RefusedCluster},
    },
    settings::Settings,
};

/// The ConfigMap's annotation with the start of the last process.
const LAST_START: &str = "remote-sync/last-start";

#[derive(Default)]
pub(crate) struct ClusterRecords {
    pub(super) known: Mutex<KnownClusters>,
    /// Namespace and name of the ConfigMap. `None` outside of a pod without `-namespace`: records are in memory only.
    pub(super) map: Option<(String, String)>,
    /// The ConfigMap cannot be used, and this was logged.
    unusable: AtomicBool,
    dry_run: bool,
    pub(crate) local: OnceLock<Arc<Connection>>,
    /// The records were read, and the start of this process was written to the ConfigMap, if that is possible.
    started: AtomicBool,
    /// The period of `-max-deletions`.
    period: Duration,
    /// When this process started, if another process had started within the period before.
    restarted: OnceLock<Option<Instant>>,
    /// When a remote was last removed with its Secret.
    forgotten: Mutex<Option<Instant>>,
}

impl ClusterRecords {
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        let known = Mutex::new(KnownClusters::new(settings.tells_copies_apart()));
        let (map, period) = (settings.known_clusters.clone(), settings.orphans.within);
        Arc::new(Self { known, map, dry_run: settings.dry_run, period, ..Self::default() })
    }

    /// Returns the record of a cluster that answers under this name and shows this uid, or why it is refused. The local
    /// cluster's record is never saved: it would be on that cluster itself.
    ///
    /// # Errors
    /// The error of a request for the ConfigMap: no record is known then. `Unreachable` after `stop`.
    pub(crate) fn admit(
        &self,
        name: &str,
        shown: &std::result::Result<Uid, String>,
        stop: &Stop,
    ) -> Result<std::result::Result<ClusterRecord, String>> {
        let judge = || {
            let mut known = lock(&self.known);
            // A removed remote is stopped before its record is forgotten, and must not create it again.
            if stop.raised() {
                return Err(Error::Unreachable("the remote was removed".into()));
            }
            Ok((known.admit(name, shown), known.is_saved(name)))
        };
        if name != OWN && !self.started.load(Relaxed) {
            self.read()?;
        }
        let (mut admitted, mut is_saved) = judge()?;
        if name != OWN && admitted.is_err() {
            // A person may have changed the records meanwhile.
            self.read()?;
            (admitted, is_saved) = judge()?;
        }
        let record = match admitted {
            Ok(record) => record,
            Err(refusal) => return Ok(Err(self.sentence(name, refusal))),
        };
        // Without a read, the ConfigMap may hold another cluster's record, which only a person may replace.
        let may_write = name != OWN && !is_saved && self.started.load(Relaxed);
        if may_write && self.merge(&json!({"data": {name: record.to_string()}}))? {
            lock(&self.known).note_saved(name);
            log::info!(remote = name, uid:% = record; "cluster recorded");
            if stop.raised() {
                // The remote was forgotten before this write.
                self.forget(name);
            }
        }
        Ok(Ok(record))
    }

    pub(crate) fn forget(&self, remote: &str) {
        *lock(&self.forgotten) = Some(Instant::now());
        if lock(&self.known).forget(remote)
            && let Err(error) = self.merge(&json!({"data": {remote: null}}))
        {
            log::warn!(remote, error:% = error; "the remote's record stays, as it cannot be removed");
        }
    }

    /// Reads all records, if the ConfigMap can be used.
    fn read(&self) -> Result<()> {
        let Some(place) = self.place() else { return Ok(()) };
        let saves = lock(&self.known).saves();
        let map = optional(self.client()?.get(&place)).map(Option::unwrap_or_default);
        let Some(map) = self.usable(map)? else { return Ok(()) };
        let texts = map["data"].as_object().into_iter().flatten();
        let texts = texts.filter_map(|(remote, text)| Some((&**remote, text.as_str()?)));
        lock(&self.known).load(texts, saves);
        let previous = map["metadata"]["annotations"][LAST_START].as_str();
        // A start in the future comes from another clock.
        let age = |at| parse_micro_time(at)?.elapsed().ok();
        let is_recent = previous.is_some_and(|at| age(at).unwrap_or_default() < self.period);
        self.restarted.get_or_init(|| is_recent.then(Instant::now));
        if !self.started.load(Relaxed) {
            let now = SystemTime::now();
            self.merge(&json!({"metadata": {"annotations": {LAST_START: micro_time(now)}}}))?;
            self.started.store(true, Relaxed);
        }
        Ok(())
    }

    /// When all tokens of `-max-deletions` but one may have been used: by an earlier process, or by a removed remote
    /// that may return.
    pub(crate) fn drained(&self) -> Option<Instant> {
        self.restarted.get().copied().flatten().max(*lock(&self.forgotten))
    }

    /// Patches the ConfigMap, and creates it if necessary; returns `false` if that is not possible.
    fn merge(&self, patch: &Value) -> Result<bool> {
        let Some(place) = self.place().filter(|_| !self.dry_run) else { return Ok(false) };
        let client = self.client()?;
        let merge = || client.patch(&place, Patch::Merge, patch);
        let merged = match merge() {
            Err(Error::NotFound(_)) => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": place.name, "namespace": place.namespace}});
                match client.create(&place, &map) {
                    Ok(_) | Err(Error::AlreadyExists(_)) => merge(),
                    error => error,
                }
            }
            result => result,
        };
        self.usable(merged).map(|map| map.is_some())
    }

    /// Maps a missing permission or namespace to `None`, and logs it once.
    fn usable(&self, result: Result<Value>) -> Result<Option<Value>> {
        match result {
            Err(
                error @ (Error::Forbidden(_)
                | Error::NotFound(_)
                | Error::NotServed(_)
                | Error::NamespaceTerminating(_)),
            ) => {
                if !self.unusable.swap(true, Relaxed) {
                    log::warn!(
                        error:% = error;
                        "known clusters are not recorded across restarts, and each start has all tokens of -max-deletions"
                    );
                }
                Ok(None)
            }
            result => {
                self.unusable.fetch_and(result.is_err(), Relaxed);
                result.map(Some)
            }
        }
    }

    fn place(&self) -> Option<Target<'_>> {
        let (namespace, name) = self.map.as_ref()?;
        Some(CONFIGMAPS.object(namespace, name))
    }

    fn client(&self) -> Result<Client> {
        let down = || Error::Unreachable("the local cluster is not connected".into());
        self.local.get().ok_or_else(down)?.client()
    }

    fn sentence(&self, remote: &str, RefusedCluster { why, accept }: RefusedCluster) -> String {
        let mut text = format!("cluster {remote} is not connected: {why}");
        let Some((of, record)) = accept else { return text };
        let map = self.map.as_ref().filter(|_| of != OWN && !self.unusable.load(Relaxed));
        let Some((namespace, name)) = map else {
            return text + "; restart the program to accept it";
        };
        let record = record.map(|record| record.to_string());
        text += if record.is_some() { "; to accept it:" } else { "; if that is gone:" };
        let patch = json!({"data": {of: record}});
        text +=
            &format!(" kubectl -n {namespace} patch configmap {name} --type merge -p '{patch}'");
        text
    }
}
