//! CSRs of a cluster on a hub. A watch of versions says which one has changed, a GET what it is.

use std::{
    collections::BTreeMap,
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
    stop::Stop,
    watch::{self, Selection},
};
use serde_json::Value;
use sidecar::runtime;

use super::{
    csr::{CLUSTER_LABEL, CSRS, CertificateRequest, CsrTemplate},
    csr_status::{MAX_PENDING, is_pending},
};

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

    /// Returns whether the next [`Self::get`] would return the same without a request.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        let is_fresh = |version| {
            lock(&self.reads).get(name).is_some_and(|it| it.is_fresh(&version, Instant::now()))
        };
        self.version(name).is_ok_and(is_fresh)
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
