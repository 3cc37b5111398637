//! State of the work duty, which its threads share.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use apiclient::{
    client::{Client, Timeouts},
    error::Result,
    lock::lock,
    reflector::Store,
    stop::Stop,
};
use sidecar::{
    client::{cluster_of_file, own_cluster},
    flags::Flags,
};

use super::{
    applied_manifest_work::AppliedManifestWork,
    apply::MAX_OBJECT,
    objects::{FIELD_MANAGER, ManifestWork},
    watches::Watches,
};
use crate::settings::WorkSettings;

/// The maximum number of works, and of records.
const MAX_WORKS: usize = 10_000;
/// Memory limits for all works and for all records, in bytes: a relist holds both twice, and the pod has 32 MiB.
const MAX_WORKS_LENGTH: usize = 8 << 20;
const MAX_RECORDS_LENGTH: usize = 2 << 20;

/// The work duty. A lock is never held across I/O.
pub(crate) struct WorkDuty {
    pub(crate) settings: WorkSettings,
    /// Ends the process when raised.
    pub(crate) process: Stop,
    /// Child of `process`: a change of a work wakes only the loops of this duty.
    pub(crate) stop: Stop,
    pub(crate) managed: Client,
    pub(crate) works: Store<Arc<ManifestWork>>,
    pub(crate) records: Store<Arc<AppliedManifestWork>>,
    pub(crate) watches: Watches,
    status: Mutex<WorkStatus>,
}

/// What the endpoint reports besides the works themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkStatus {
    pub(crate) beat: Option<Instant>,
    /// Why there is no client for the hub.
    pub(crate) no_hub: Option<String>,
    /// Number of objects whose drift was corrected.
    pub(crate) drift: u64,
    pub(crate) evicted: u64,
    /// Number of records whose work is absent from the hub.
    pub(crate) absent: usize,
    /// Why these records are not evicted now.
    pub(crate) refusal: Option<String>,
}

impl WorkDuty {
    /// Creates the duty without starting it.
    pub(crate) fn new(settings: &WorkSettings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let managed = match settings.spoke_kubeconfig.clone() {
            None => own_cluster(flags, Timeouts::REQUEST)?,
            Some(file) => cluster_of_file("the managed cluster", file)?,
        };
        Ok(Self {
            settings: settings.clone(),
            process: stop.clone(),
            stop: stop.child(),
            managed: managed.managing_as(FIELD_MANAGER).limited_to(MAX_OBJECT),
            works: Store::new(MAX_WORKS)
                .warning()
                .weighing_at_most(MAX_WORKS_LENGTH, |work| work.length),
            records: Store::new(MAX_WORKS)
                .warning()
                .weighing_at_most(MAX_RECORDS_LENGTH, |record| record.length()),
            watches: Watches::default(),
            status: Mutex::default(),
        })
    }

    pub(crate) fn status(&self) -> WorkStatus {
        lock(&self.status).clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut WorkStatus)) {
        change(&mut lock(&self.status));
    }
}
