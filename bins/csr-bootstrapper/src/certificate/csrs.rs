//! CSRs of a cluster on a hub. A metadata watch says which CSR has changed, and a GET reads it.

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

/// The interval of reads of a CSR without a watch, which permissions or a proxy may prevent.
const REREAD_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum number of CSRs with known versions: further ones are read as often as without a watch.
const MAX_CSRS: usize = 1000;
/// Maximum length of a resourceVersion, a 64-bit number.
const MAX_VERSION: usize = 20;
/// How long a read is kept. After that, a step reads the CSR again.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// Maximum number of kept reads: further CSRs are read at each step.
const MAX_READS: usize = 100;
/// Memory limit for a CSR, in bytes: one with a long chain has some 20 KiB.
const MAX_CSR: usize = 64 << 10;

/// The CSRs of one cluster, through one client; the first read opens the watch.
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
    /// The version by the watch before the read: another one makes the read stale.
    version: Lookup<String>,
    at: Instant,
}

impl CsrClient {
    /// Creates a client, which wakes `process` when a CSR changes. It ends with it, or when [closed](Self::close).
    pub(crate) fn new(client: Client, cluster: &str, process: &Stop) -> Self {
        let (stop, process) = (process.child(), process.clone());
        let labels = format!("{CLUSTER_LABEL}={cluster}");
        let (versions, reads) = (Mutex::default(), Mutex::default());
        Self { client, labels, stop, process, versions, reads }
    }

    /// Returns the CSR `name`. It is read again only after a change, or at an interval while no watch is open.
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

    /// Returns the number of pending CSRs of `template`, up to the limit; 0 without the permission to list them.
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

    /// Returns why changes of CSRs may be missed, for `/readyz`.
    pub(crate) fn last_error(&self) -> Option<String> {
        lock(&self.versions).as_ref()?.last_error()
    }

    /// Returns the version of a CSR by the watch; opens the watch if it is not open.
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
            // A CSR without our labels, which the hub may have changed, is absent from the watch.
            Lookup::Absent => self.csr.is_none(),
            Lookup::Unknown | Lookup::Invalid => false,
        };
        self.version == *version && (is_watched || now < self.at + REREAD_INTERVAL)
    }
}
