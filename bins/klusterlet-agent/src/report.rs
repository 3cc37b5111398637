//! Report for the diagnostics endpoint: liveness, readiness and metrics.

use std::{collections::BTreeMap, sync::Arc};

use apiclient::client::LIST_TIMEOUT;
use sidecar::{
    diagnostics::{LOOP_TIMEOUT, Report, stuck},
    leadership::Leadership,
    metrics::{Family, LEADER, Metrics},
};

use crate::{
    settings::LOCK,
    work::{
        conditions::{APPLIED, AVAILABLE},
        duty::WorkDuty,
        objects::WorkCondition,
    },
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
    "AppliedManifestWorks of this agent whose ManifestWork is absent from the hub.",
);
const DRIFT: Family = Family::counter(
    "sidecar_drift_corrected_total",
    "Objects that others had changed or deleted, and that were put right.",
);
const EVICTED: Family = Family::counter("sidecar_evictions_total", "AppliedManifestWorks evicted.");

/// The report of this process.
pub(crate) struct Reporter {
    pub(crate) duty: Arc<WorkDuty>,
    pub(crate) leadership: Arc<Leadership>,
}

impl Report for Reporter {
    fn healthy(&self) -> Result<(), String> {
        match stuck(self.duty.status().beat, LOOP_TIMEOUT + LIST_TIMEOUT) {
            true => Err("the loop for works is stuck".to_owned()),
            false => Ok(()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        // A standby replica is as ready as it can be.
        if self.leadership.follows() {
            return Ok(());
        }
        if let Some(why) = self.duty.status().no_hub {
            return Err(format!("the hub's kubeconfig cannot be used: {why}"));
        }
        let (works, records) = (&self.duty.works, &self.duty.records);
        for (what, is_complete, error) in [
            ("ManifestWorks", works.is_complete(), works.last_error()),
            ("AppliedManifestWorks", records.is_complete(), records.last_error()),
        ] {
            if !is_complete {
                let why = error.map_or_else(String::new, |error| format!(": {error}"));
                return Err(format!("the {what} have not been read yet{why}"));
            }
        }
        Ok(())
    }

    fn remarks(&self) -> String {
        let duty = &self.duty;
        let errors = [duty.works.last_error(), duty.records.last_error(), duty.status().refusal];
        let unwatched = duty.watches.refused().into_iter();
        let unwatched = unwatched.map(|kind| format!("{kind} may not be watched, and is polled"));
        errors.into_iter().flatten().chain(unwatched).map(|line| line + "\n").collect()
    }

    fn metrics(&self) -> String {
        let duty = &self.duty;
        let mut metrics = Metrics::default();
        metrics.add_process(env!("CARGO_PKG_NAME"), duty.started);
        if duty.settings.election.is_some() {
            metrics.add(LEADER, &[("name", LOCK)], u8::from(self.leadership.leads()));
        }
        for (family, counts) in [(WORKS, self.works()), (MANIFESTS, self.manifests())] {
            for ((applied, available), count) in counts {
                let labels = [("applied", &*applied), ("available", &*available)];
                metrics.add(family, &labels, count);
            }
        }
        let status = duty.status();
        metrics.add(ABSENT, &[], status.absent);
        metrics.add(DRIFT, &[], status.drift);
        metrics.add(EVICTED, &[], status.evicted);
        metrics.add_requests("hub", &duty.requests);
        metrics.add_client("managed", &duty.managed);
        metrics.to_string()
    }
}

/// How many have these statuses of Applied and Available.
type Counts = BTreeMap<(String, String), usize>;

impl Reporter {
    fn works(&self) -> Counts {
        self.duty
            .works
            .read(|works| count(works.values().flatten().map(|work| &*work.status.conditions)))
            .unwrap_or_default()
    }

    fn manifests(&self) -> Counts {
        self.duty
            .works
            .read(|works| {
                let works = works.values().flatten();
                let manifests = works.flat_map(|work| &work.status.resource_status.manifests);
                count(manifests.map(|manifest| &*manifest.conditions))
            })
            .unwrap_or_default()
    }
}

fn count<'a>(all: impl Iterator<Item = &'a [WorkCondition]>) -> Counts {
    let mut counts = Counts::new();
    for conditions in all {
        let status = |kind: &str| {
            let condition = conditions.iter().find(|condition| condition.kind == kind);
            condition.map_or_else(|| "Unknown".to_owned(), |condition| condition.status.clone())
        };
        *counts.entry((status(APPLIED), status(AVAILABLE))).or_default() += 1;
    }
    counts
}
