//! Loop of the work duty: passes over the works that changed, and over the records whose work is gone.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    api::ObjectMeta,
    backoff::Backoff,
    controller,
    error::{Error, Result},
    log_object,
    reflector::Lookup,
    resource::Target,
    stop::Stop,
    time::parse_micro_time,
};
use log::Level;

use super::{
    bring::objects,
    clients::Clients,
    duty::{WorkDuty, hash},
    eviction::{self, Eviction, Evidence},
    io::{Side, WorkEvent, WorkIo},
    objects::{AppliedManifestWork, MANIFEST_WORKS, ManifestWork},
    reconcile::{Digests, Progress, WorkAgent, finalize, reconcile},
    record::{delete_record, set_eviction_start},
};

/// The longest wait before a work that failed is tried again.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Objects of kinds that may not be watched are read this often.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// An eviction that waits for a certain hub looks again after this.
const DOUBT_INTERVAL: Duration = Duration::from_secs(1);

/// The loop.
pub(crate) struct WorkController {
    agent: WorkAgent,
    clients: Clients,
    duty: Arc<WorkDuty>,
    /// By work, and by record.
    passes: BTreeMap<String, Pass>,
}

/// The last pass over a work or a record without one.
struct Pass {
    seen: u64,
    due: Option<Instant>,
    backoff: Backoff,
    digests: Digests,
}

impl WorkController {
    pub(crate) fn new(agent: WorkAgent, clients: Clients, duty: Arc<WorkDuty>) -> Self {
        Self { agent, clients, duty, passes: BTreeMap::new() }
    }

    /// Runs until the end of the process.
    pub(crate) fn run(&mut self) {
        let stop = self.duty.stop.clone();
        controller::run(&stop, || {
            self.duty.change(|status| status.beat = Some(Instant::now()));
            if hash(&self.clients.hub.config().server) != self.agent.hub_hash {
                // All names of records change with it.
                log::warn!("the hub's URL has changed: starting anew");
                stop.raise();
                return None;
            }
            for work in self.duty.watches.take_changed() {
                if let Some(pass) = self.passes.get_mut(&work) {
                    pass.due = Some(Instant::now());
                }
            }
            self.pass_works();
            self.pass_records();
            let due = self.passes.values().filter_map(|pass| pass.due).min();
            Some(due.unwrap_or_else(|| Instant::now() + Stop::SLICE))
        });
    }

    fn pass_works(&mut self) {
        let works = self.duty.works.read(|works| works.values().flatten().cloned().collect());
        let works: Vec<Arc<ManifestWork>> = works.unwrap_or_default();
        for work in works {
            if self.duty.stop.raised() {
                return;
            }
            if self.is_due(work.name(), fingerprint(&work)) {
                self.pass_work(work.name());
            }
        }
    }

    fn is_due(&mut self, key: &str, seen: u64) -> bool {
        let pass = self.passes.entry(key.to_owned()).or_insert_with(|| Pass {
            seen: !seen,
            due: None,
            backoff: Backoff::new(MAX_BACKOFF),
            digests: Digests::new(),
        });
        let is_new = std::mem::replace(&mut pass.seen, seen) != seen;
        is_new || pass.due.is_some_and(|due| due <= Instant::now())
    }

    fn pass_work(&mut self, name: &str) {
        // It may have changed during the passes before.
        let Lookup::Object(work) = self.duty.works.get(name) else { return };
        let Some(pass) = self.passes.get_mut(name) else { return };
        pass.seen = fingerprint(&work);
        let objects = objects(&mut self.clients, &work);
        self.duty.watches.follow(name, &objects, &self.duty.managed, &self.duty.stop);
        let result = reconcile(&mut self.clients, &self.agent, &work, &mut pass.digests);
        pass.settle(&result, &MANIFEST_WORKS.object(&self.duty.settings.cluster, name));
        if self.duty.watches.needs_polling(name) && pass.due.is_none() {
            pass.due = Some(Instant::now() + POLL_INTERVAL);
        }
    }

    /// Records that are being deleted, and those whose work is absent.
    fn pass_records(&mut self) {
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
        let counts = (absent.iter().filter(|absent| **absent).count(), records.len());
        let refusal = eviction::refusal(self.duty.settings.evict, counts);
        self.duty.change(|status| (status.absent, status.refusal) = (counts.0, refusal));
        for (record, is_absent) in records.iter().zip(absent) {
            if self.duty.stop.raised() {
                return;
            }
            let key = format!("record {}", record.metadata.name.as_deref().unwrap_or_default());
            let mut hasher = DefaultHasher::new();
            (&record.metadata.resource_version, is_absent, counts).hash(&mut hasher);
            if self.is_due(&key, hasher.finish()) {
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
            let work = match self.duty.works.get(&record.spec.manifest_work_name) {
                Lookup::Object(work) => Some(work),
                _ => None,
            };
            let option = work.as_ref().and_then(|work| work.spec.delete_option.as_ref());
            finalize(&mut self.clients, record, option).map(|progress| (progress, None))
        } else {
            self.evict(record, is_absent, counts).map(|due| (Progress::Done, due))
        };
        let cluster = &self.duty.settings.cluster;
        let target = MANIFEST_WORKS.object(cluster, &record.spec.manifest_work_name);
        if let Some(pass) = self.passes.get_mut(key) {
            let due = result.as_ref().ok().and_then(|(_, due)| *due);
            pass.settle(&result.map(|(progress, _)| progress), &target);
            pass.due = pass.due.or(due);
        }
    }

    /// One step of an eviction; returns when to look again.
    fn evict(
        &mut self,
        record: &AppliedManifestWork,
        is_absent: bool,
        counts: (usize, usize),
    ) -> Result<Option<Instant>> {
        let since = record.status.eviction_start_time.as_deref();
        let is_ours = record.spec.hub_hash == self.agent.hub_hash;
        let mut evidence = Evidence {
            hub_is_certain: self.duty.works.last_error().is_none(),
            is_wanted: is_ours && !is_absent,
            is_confirmed: false,
            counts,
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
                self.clients.tell(&absent_work(record, &settings.cluster), &WorkEvent::Evicted);
            }
            Eviction::Doubt | Eviction::Confirm => {
                return Ok(Some(Instant::now() + DOUBT_INTERVAL));
            }
            Eviction::Wait(end) => {
                let wait = end.duration_since(now).unwrap_or_default();
                return Ok(Instant::now().checked_add(wait));
            }
            Eviction::Keep | Eviction::Refuse => {}
        }
        Ok(None)
    }

    /// Asks the hub itself whether the work is gone. A record of another address of the hub goes once there is one of
    /// this address.
    fn is_evictable(&mut self, record: &AppliedManifestWork, is_absent: bool) -> Result<bool> {
        let name = &record.spec.manifest_work_name;
        if !is_absent {
            let successor = format!("{}-{name}", self.agent.hub_hash);
            return Ok(matches!(self.duty.records.get(&successor), Lookup::Object(_)));
        }
        match self.clients.get(Side::Hub, &MANIFEST_WORKS.object(&self.duty.settings.cluster, name))
        {
            Err(Error::NotFound(_)) => Ok(true),
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// What is known of a work that is gone.
fn absent_work(record: &AppliedManifestWork, cluster: &str) -> ManifestWork {
    let metadata = ObjectMeta::new(Some(cluster), &record.spec.manifest_work_name);
    ManifestWork { metadata, ..ManifestWork::default() }
}

impl Pass {
    /// Notes the outcome of a pass.
    fn settle(&mut self, result: &Result<Progress>, target: &Target<'_>) {
        let pending = Error::Unreachable("something is left to do".into());
        let error = match result {
            Ok(Progress::Done) => {
                self.backoff.succeeded();
                self.due = None;
                return;
            }
            Ok(Progress::Pending) => &pending,
            Err(error) => error,
        };
        let retry = self.backoff.failed(error, Instant::now(), fastrand::f64());
        self.due = Some(Instant::now() + retry.wait);
        if result.is_err() {
            let level = if retry.should_log { Level::Warn } else { Level::Debug };
            log_object!(level, target, error:% = error; "the work is tried again");
        }
    }
}

/// What a pass depends on: all but the status, which this agent alone writes.
fn fingerprint(work: &ManifestWork) -> u64 {
    let mut hasher = DefaultHasher::new();
    work.metadata.deletion_timestamp.hash(&mut hasher);
    for field in ["uid", "generation", "labels", "finalizers"] {
        work.metadata.other.get(field).hash(&mut hasher);
    }
    work.is_complete().hash(&mut hasher);
    hasher.finish()
}
