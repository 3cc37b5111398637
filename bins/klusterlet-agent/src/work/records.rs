//! Passes over AppliedManifestWorks: they finalize records being deleted, and evict records whose work is absent.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    api::ObjectMeta,
    error::{Error, Result},
    reflector::Lookup,
    time::parse_micro_time,
};

use super::{
    applied_manifest_work::{APPLIED_FINALIZER, AppliedManifestWork},
    controller::{Pass, RECORD_PREFIX, WorkController},
    eviction::{self, Eviction, Evidence},
    io::{Side, WorkEvent, WorkIo},
    objects::{MANIFEST_WORKS, ManifestWork, digest, finalizers},
    reconcile::finalize,
    record::{delete_record, set_eviction_start},
    report::Progress,
};

/// The interval of retries of an eviction while the hub is in doubt.
const DOUBT_INTERVAL: Duration = Duration::from_secs(1);

impl WorkController {
    /// Finalizes this agent's records that are being deleted, and evicts records whose work is absent.
    pub(super) fn pass_records(&mut self) {
        if !self.duty.works.is_complete() {
            return;
        }
        let records = self.duty.records.read(|records| {
            let ours =
                |record: &&Arc<AppliedManifestWork>| record.spec.agent_id == self.agent.agent_id;
            records.values().flatten().filter(ours).cloned().collect::<Vec<_>>()
        });
        let records = records.unwrap_or_default();
        let is_absent = |record: &Arc<AppliedManifestWork>| {
            self.duty.works.get(&record.spec.manifest_work_name) == Lookup::Absent
        };
        let absent: Vec<bool> = records.iter().map(is_absent).collect();
        // A record that owns nothing does not count: its eviction deletes no object, and says nothing about the hub.
        let counted = records.iter().zip(&absent).filter(|(record, _)| may_own(record));
        let counts = (counted.clone().filter(|(_, absent)| **absent).count(), counted.count());
        self.hub.follow(&mut self.clients, &self.duty, &self.agent.cluster);
        let obstacles = (self.hub.doubt(), self.hub.error());
        let refusal = eviction::refusal(self.duty.settings.evict, counts, obstacles);
        self.duty.change(|status| (status.absent, status.refusal) = (counts.0, refusal));
        for (record, is_absent) in records.iter().zip(absent) {
            if self.duty.stop.raised() {
                return;
            }
            let name = record.metadata.name.as_deref().unwrap_or_default();
            let key = format!("{RECORD_PREFIX}{name}");
            let version = &record.metadata.resource_version;
            if self.is_due(&key, digest((version, is_absent, counts, self.hub.doubt()))) {
                self.pass_record(record, &key, is_absent, counts);
            }
        }
    }

    fn pass_record(
        &mut self,
        record: &AppliedManifestWork,
        key: &str,
        is_absent: bool,
        counts: (usize, usize),
    ) {
        let result = if record.is_deleting() {
            self.finalize(record).map(|progress| (progress, None))
        } else {
            self.evict(record, is_absent, counts).map(|due| (Progress::Done, due))
        };
        let cluster = &self.agent.cluster;
        let target = MANIFEST_WORKS.object(cluster, &record.spec.manifest_work_name);
        if let Some(pass) = self.passes.get_mut(key) {
            let due = result.as_ref().ok().and_then(|(_, due)| *due);
            pass.settle(&result.map(|(progress, _)| progress), &target);
            pass.due = pass.due.or(due);
        }
    }

    /// Finalizes a record, unless its work cannot be read: the work may orphan its objects.
    fn finalize(&mut self, record: &AppliedManifestWork) -> Result<Progress> {
        match self.duty.works.get(&record.spec.manifest_work_name) {
            Lookup::Object(work) => {
                finalize(&mut self.clients, record, work.spec.delete_option.as_ref())
            }
            Lookup::Absent => finalize(&mut self.clients, record, None),
            _ => Ok(Progress::Pending),
        }
    }

    /// Takes one step of an eviction; returns when the next one is due.
    fn evict(
        &mut self,
        record: &AppliedManifestWork,
        is_absent: bool,
        counts: (usize, usize),
    ) -> Result<Option<Instant>> {
        let since = record.status.eviction_start_time.as_deref();
        let is_ours = record.spec.hub_hash == self.agent.hub_hash;
        let mut evidence = Evidence {
            hub_is_certain: self.duty.works.last_error().is_none() && self.hub.is_certain(),
            doubt: self.hub.doubt(),
            is_wanted: is_ours && !is_absent,
            is_confirmed: false,
            counts: if may_own(record) { counts } else { (0, 0) },
            since: since.and_then(parse_micro_time),
        };
        let (duty, now) = (self.duty.clone(), SystemTime::now());
        let settings = &duty.settings;
        let decide = |evidence: &Evidence| {
            eviction::decide(settings.evict, settings.grace_period, evidence, now)
        };
        let mut step = decide(&evidence);
        if step == Eviction::Confirm {
            evidence.is_confirmed = self.is_evictable(record, is_absent)?;
            evidence.doubt = self.hub.doubt();
            step = decide(&evidence);
        }
        match step {
            Eviction::Clear => set_eviction_start(&mut self.clients, record, None)?,
            Eviction::Start => {
                let start = self.clients.now();
                set_eviction_start(&mut self.clients, record, Some(&start))?;
            }
            Eviction::Delete => {
                delete_record(&mut self.clients, record)?;
                self.clients.tell(&absent_work(record, &self.agent.cluster), &WorkEvent::Evicted);
            }
            Eviction::Doubt | Eviction::Confirm => {
                return Ok(Some(Instant::now() + DOUBT_INTERVAL));
            }
            Eviction::Wait(end) => {
                let wait = end.duration_since(now).unwrap_or_default();
                return Ok(Instant::now().checked_add(wait));
            }
            Eviction::Keep => {}
        }
        Ok(None)
    }

    /// Returns whether the hub confirms that the work is gone. A record of another address of the hub is evicted once
    /// the record of this address owns the objects.
    fn is_evictable(&mut self, record: &AppliedManifestWork, is_absent: bool) -> Result<bool> {
        let name = &record.spec.manifest_work_name;
        if !is_absent {
            let successor = format!("{}-{name}", self.agent.hub_hash);
            let has_successor = matches!(self.duty.records.get(&successor), Lookup::Object(_));
            return Ok(has_successor && self.passes.get(name).is_some_and(Pass::is_done));
        }
        self.hub.check(&mut self.clients, &self.agent.cluster)?;
        match self.clients.get(Side::Hub, &MANIFEST_WORKS.object(&self.agent.cluster, name)) {
            Err(Error::NotFound(_)) => Ok(true),
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether the record may own objects. Agents set its finalizer before they apply any, and list them later.
fn may_own(record: &AppliedManifestWork) -> bool {
    !record.status.applied_resources.is_empty()
        || finalizers(&record.metadata).contains(&APPLIED_FINALIZER)
}

/// Returns a work that is gone, with its name alone.
fn absent_work(record: &AppliedManifestWork, cluster: &str) -> ManifestWork {
    let metadata = ObjectMeta::new(Some(cluster), &record.spec.manifest_work_name);
    ManifestWork { metadata, ..ManifestWork::default() }
}
