//! Liveness, readiness and metrics of the work duty, for the diagnostics endpoint. With registration, they are part of
//! csr-bootstrapper's report.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use apiclient::client::{LIST_TIMEOUT, RequestMetrics};
use csr_bootstrapper::{Duty, identity::AgentNames};
use sidecar::{
    diagnostics::{LOOP_TIMEOUT, Report, stuck},
    leadership::Leadership,
    metrics::{Family, Metrics},
};

use crate::work::{
    self,
    conditions::{APPLIED, AVAILABLE, find_status_condition},
    duty::WorkDuty,
    objects::WorkCondition,
};

const WORKS: Family = Family::gauge(
    "sidecar_manifestworks",
    "ManifestWorks, by the status of their conditions Applied and Available.",
);
const MANIFESTS: Family = Family::gauge(
    "sidecar_manifests",
    "Manifests of all ManifestWorks, by the status of their conditions Applied and Available.",
);
const ABSENT: Family = Family::gauge(
    "sidecar_manifestworks_absent",
    "AppliedManifestWorks of this agent that may own objects, whose ManifestWork is absent from the hub.",
);
const DRIFT: Family = Family::counter(
    "sidecar_drift_corrected_total",
    "Objects that others had changed or deleted, and that were put right.",
);
const EVICTED: Family = Family::counter("sidecar_evictions_total", "AppliedManifestWorks evicted.");

/// The report of a process with the work duty alone.
pub(crate) struct Reporter {
    pub(crate) duty: Arc<WorkDuty>,
    pub(crate) leadership: Arc<Leadership>,
    /// Requests to the hub.
    pub(crate) requests: RequestMetrics,
    pub(crate) started: SystemTime,
}

impl Report for Reporter {
    fn healthy(&self) -> Result<(), String> {
        self.duty.healthy()
    }

    fn ready(&self) -> Result<(), String> {
        // A standby replica is ready.
        if self.leadership.follows() { Ok(()) } else { self.duty.ready() }
    }

    fn remarks(&self) -> String {
        self.duty.remarks().into_iter().map(|line| line + "\n").collect()
    }

    fn metrics(&self) -> String {
        let mut metrics = Metrics::default();
        metrics.add_process(env!("CARGO_PKG_NAME"), self.started);
        self.leadership.add_to(&mut metrics);
        metrics.add_requests("hub", &self.requests);
        self.duty.add_to(&mut metrics);
        metrics.to_string()
    }
}

impl Duty for WorkDuty {
    fn run(self: Arc<Self>, names: &AgentNames, requests: &RequestMetrics) {
        work::run(self, &names.cluster, Some(&names.agent), requests);
    }

    fn healthy(&self) -> Result<(), String> {
        match stuck(self.status().beat, LOOP_TIMEOUT + LIST_TIMEOUT) {
            true => Err("the loop for works is stuck".to_owned()),
            false => Ok(()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        if let Some(why) = self.status().no_hub {
            return Err(format!("the hub's kubeconfig cannot be used: {why}"));
        }
        for (what, is_complete, error) in [
            ("ManifestWorks", self.works.is_complete(), self.works.last_error()),
            ("AppliedManifestWorks", self.records.is_complete(), self.records.last_error()),
        ] {
            if !is_complete {
                let why = error.map_or_else(String::new, |error| format!(": {error}"));
                return Err(format!("the {what} have not all been read{why}"));
            }
        }
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        let errors = [self.works.last_error(), self.records.last_error(), self.status().refusal];
        let ignored = [
            ("ManifestWork", self.works.first_invalid()),
            ("AppliedManifestWork", self.records.first_invalid()),
        ];
        let ignored = ignored.into_iter().filter_map(|(kind, name)| {
            let why = "it is invalid, or all together are too large";
            Some(format!("{kind} {} is ignored: {why}", name?))
        });
        let unwatched = self.watches.refused().into_iter();
        let unwatched = unwatched.map(|kind| format!("{kind} cannot be watched, and is polled"));
        errors.into_iter().flatten().chain(ignored).chain(unwatched).collect()
    }

    fn add_to(&self, metrics: &mut Metrics) {
        for (family, counts) in [(WORKS, works(self)), (MANIFESTS, manifests(self))] {
            for ((applied, available), count) in counts {
                let labels = [("applied", &*applied), ("available", &*available)];
                metrics.add(family, &labels, count);
            }
        }
        let status = self.status();
        metrics.add(ABSENT, &[], status.absent);
        metrics.add(DRIFT, &[], status.drift);
        metrics.add(EVICTED, &[], status.evicted);
        metrics.add_client("managed", &self.managed);
    }
}

/// Counts by the statuses of Applied and Available.
type Counts = BTreeMap<(String, String), usize>;

fn works(duty: &WorkDuty) -> Counts {
    duty.works
        .read(|works| count(works.values().flatten().map(|work| &*work.status.conditions)))
        .unwrap_or_default()
}

fn manifests(duty: &WorkDuty) -> Counts {
    duty.works
        .read(|works| {
            let works = works.values().flatten();
            let manifests = works.flat_map(|work| &work.status.resource_status.manifests);
            count(manifests.map(|manifest| &*manifest.conditions))
        })
        .unwrap_or_default()
}

fn count<'a>(all: impl Iterator<Item = &'a [WorkCondition]>) -> Counts {
    let mut counts = Counts::new();
    for conditions in all {
        let status = |kind: &str| {
            let condition = find_status_condition(conditions, kind);
            condition.map_or_else(|| "Unknown".to_owned(), |condition| condition.status.clone())
        };
        *counts.entry((status(APPLIED), status(AVAILABLE))).or_default() += 1;
    }
    counts
}
