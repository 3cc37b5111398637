//! Records of known clusters, in a ConfigMap on the local cluster: admits a cluster that answers as a remote, or refuses
//! it and says how a person accepts it.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use serde_json::json;
use shared::{client::Client, error::Result, lock::lock};

use super::{handle::Connection, state_map::StateMap};
use crate::{
    model::{
        annotations::Uid,
        known_clusters::{AcceptedIdentity, ClusterRecord, Judgement, KnownClusters, Refusal},
    },
    settings::{OWN, Settings},
};

/// The records, shared by all connections.
pub(crate) struct ClusterRecords {
    known: Mutex<KnownClusters>,
    /// The local cluster has its record in memory alone: the ConfigMap is its own.
    own: Mutex<KnownClusters>,
    /// A remote may be the local cluster.
    own_is_remote: bool,
    /// `None` without a namespace of the program's own.
    map: Option<StateMap>,
    /// Nothing is written.
    dry_run: bool,
    local: OnceLock<Arc<Connection>>,
    /// The ConfigMap was read.
    loaded: AtomicBool,
}

impl ClusterRecords {
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        const LOST: &str = "known clusters are not recorded across restarts";
        let records = Self::in_memory(settings.accepted.clone());
        let map = settings.known_clusters.clone().map(|place| StateMap::new(place, LOST));
        let own_is_remote = settings.tells_copies_apart();
        Arc::new(Self { map, own_is_remote, dry_run: settings.dry_run, ..records })
    }

    pub(crate) fn in_memory(accepted: Vec<AcceptedIdentity>) -> Self {
        Self {
            known: Mutex::new(KnownClusters::new(accepted)),
            own: Mutex::default(),
            own_is_remote: true,
            map: None,
            dry_run: false,
            local: OnceLock::new(),
            loaded: AtomicBool::default(),
        }
    }

    /// Reads and writes the ConfigMap by this connection.
    pub(crate) fn set_local(&self, local: Arc<Connection>) {
        // There is one local cluster.
        let _ = self.local.set(local);
    }

    /// Returns the record of a cluster that answers as `remote` and shows this uid, or the reason why it is refused.
    ///
    /// # Errors
    /// The request's for the ConfigMap: nothing is known then.
    pub(crate) fn admit(
        &self,
        remote: &str,
        shown: &std::result::Result<Uid, String>,
    ) -> Result<std::result::Result<ClusterRecord, String>> {
        if remote == OWN {
            return Ok(self.admit_local(shown));
        }
        if !self.loaded.load(Relaxed) {
            self.read()?;
        }
        let mut judgement = self.judge(remote, shown);
        if matches!(judgement, (Judgement::Refused(_), _)) {
            // A person may have changed the records.
            self.read()?;
            judgement = self.judge(remote, shown);
        }
        match judgement {
            (Judgement::Known(record), _) => Ok(Ok(record)),
            (Judgement::New(record), before) => {
                match self.write(remote, Some(&record)) {
                    Ok(true) => lock(&self.known).note_saved(remote),
                    Ok(false) => {}
                    Err(error) => {
                        self.restore(remote, before);
                        return Err(error);
                    }
                }
                log::info!(remote, record:% = record; "cluster recorded");
                Ok(Ok(record))
            }
            (Judgement::Refused(refusal), _) => Ok(Err(self.sentence(remote, refusal))),
        }
    }

    /// Forgets a remote that is gone with its Secret.
    pub(crate) fn forget(&self, remote: &str) {
        if lock(&self.known).forget(remote)
            && let Err(error) = self.write(remote, None)
        {
            log::warn!(remote, error:% = error; "the remote's record stays, as it cannot be removed");
        }
    }

    fn admit_local(
        &self,
        shown: &std::result::Result<Uid, String>,
    ) -> std::result::Result<ClusterRecord, String> {
        let mut own = lock(&self.own);
        let record = match own.judge(OWN, shown) {
            Judgement::Known(record) | Judgement::New(record) => record,
            Judgement::Refused(Refusal { why, .. }) => {
                return Err(format!("the local cluster was replaced: {why}"));
            }
        };
        own.put(OWN, record.clone());
        lock(&self.known).reserve(record.uid.filter(|_| !self.own_is_remote));
        Ok(record)
    }

    /// Judges, and reserves a new record, which no other remote can have from then on. Returns the one before, too.
    fn judge(
        &self,
        remote: &str,
        shown: &std::result::Result<Uid, String>,
    ) -> (Judgement, Option<ClusterRecord>) {
        let mut known = lock(&self.known);
        let (judgement, before) = (known.judge(remote, shown), known.record(remote).cloned());
        if let Judgement::New(record) = &judgement {
            known.put(remote, record.clone());
        }
        (judgement, before)
    }

    /// Takes a new record back.
    fn restore(&self, remote: &str, before: Option<ClusterRecord>) {
        let mut known = lock(&self.known);
        known.forget(remote);
        if let Some(record) = before {
            known.put(remote, record);
            known.note_saved(remote);
        }
    }

    /// Reads all records.
    fn read(&self) -> Result<()> {
        let Some(map) = &self.map else { return Ok(()) };
        let Some(map) = map.read(&|request| request(&self.client()?))? else { return Ok(()) };
        let texts = map["data"].as_object().into_iter().flatten();
        let texts = texts.filter_map(|(remote, text)| Some((&**remote, text.as_str()?)));
        lock(&self.known).load(texts);
        self.loaded.store(true, Relaxed);
        Ok(())
    }

    /// Writes or removes a record; `false` if it can only be in memory.
    fn write(&self, remote: &str, record: Option<&ClusterRecord>) -> Result<bool> {
        let Some(map) = self.map.as_ref().filter(|_| !self.dry_run) else { return Ok(false) };
        let patch = json!({"data": {remote: record.map(ToString::to_string)}});
        map.merge(&|request| request(&self.client()?), &patch).map(|map| map.is_some())
    }

    fn client(&self) -> Result<Client> {
        let down =
            || shared::error::Error::Unreachable("the local cluster is not connected".into());
        self.local.get().ok_or_else(down)?.client()
    }

    fn sentence(&self, remote: &str, Refusal { why, accept }: Refusal) -> String {
        let mut text = format!("cluster {remote} is not connected: {why}");
        let Some((of, record)) = accept else { return text };
        if let Some(uid) = record.as_ref().and_then(|record| record.uid) {
            text += &format!("; to accept it: -accept-identity {of}={uid}");
        }
        if let Some(map) = &self.map {
            let record = record.map(|record| record.to_string());
            let before = if record.is_some() { ", or" } else { "; if that is gone:" };
            text += &format!("{before} {}", map.command(&of, record.as_deref()));
        }
        text
    }
}
