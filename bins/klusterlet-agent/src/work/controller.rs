//! Loop of the work duty: passes over works that changed. `records` has the passes over records.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff, controller, error::Result, log_object, reflector::Lookup, resource::Target,
    stop::Stop,
};

use super::{
    bring::{WorkMemory, objects},
    clients::Clients,
    duty::WorkDuty,
    hub_identity::HubIdentity,
    objects::{MANIFEST_WORKS, ManifestWork, digest},
    reconcile::reconcile,
    record::WorkAgent,
    report::Progress,
    watches::Scrape,
};

/// The longest backoff of a work that failed.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The shortest time between two passes of a work because its objects changed. It doubles, up to [`MAX_BACKOFF`], with
/// each pass that undoes another writer's change: the two must not fight at full speed.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The same for changes of a work's status, which another writer may overwrite repeatedly.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);
/// The prefix of keys of passes over records. Names of works contain no space.
pub(super) const RECORD_PREFIX: &str = "record ";

pub(crate) struct WorkController {
    pub(super) agent: WorkAgent,
    pub(super) clients: Clients,
    pub(super) duty: Arc<WorkDuty>,
    pub(super) hub: HubIdentity,
    /// By name of the work, or by `RECORD_PREFIX` and name of the record.
    pub(super) passes: BTreeMap<String, Pass>,
}

/// The last pass over a work or a record, and the next one.
pub(super) struct Pass {
    seen: u64,
    /// The work's resourceVersion at the last pass.
    version: Option<String>,
    ended: Option<Instant>,
    pub(super) due: Option<Instant>,
    /// When to poll the work, because one of its kinds cannot be watched.
    poll: Option<Instant>,
    backoff: Backoff,
    memory: WorkMemory,
}

impl WorkController {
    pub(crate) fn new(agent: WorkAgent, clients: Clients, duty: Arc<WorkDuty>) -> Self {
        Self { agent, clients, duty, hub: HubIdentity::default(), passes: BTreeMap::new() }
    }

    /// Runs until the end of the process.
    pub(crate) fn run(&mut self) {
        let (stop, server) = (self.duty.stop.clone(), self.clients.hub.config().server);
        controller::run(&stop, || {
            let started = Instant::now();
            self.duty.change(|status| status.beat = Some(started));
            if self.clients.hub.config().server != server {
                // The names of all records depend on it.
                log::warn!("the hub's URL has changed: restarting the work duty");
                self.duty.process.raise();
                return None;
            }
            let interval = self.duty.settings.status_sync_interval;
            for (work, scrape) in self.duty.watches.take_changed() {
                if let Some(pass) = self.passes.get_mut(&work) {
                    let spacing = if scrape == Scrape::Poll { interval } else { pass.spacing() };
                    pass.hasten(Instant::now(), spacing);
                }
            }
            self.pass_works();
            self.pass_records();
            self.forget_absent();
            self.poll_unwatched();
            // Whatever was due before `started` has had its pass, if possible.
            let due = self.passes.values().flat_map(|pass| [pass.due, pass.poll]).flatten();
            let due = due.filter(|due| *due > started).min();
            Some(due.unwrap_or_else(|| Instant::now() + Stop::SLICE))
        });
    }

    /// Schedules polls of works with kinds that cannot be watched: one interval after the last pass and after the
    /// watch began to fail.
    fn poll_unwatched(&mut self) {
        let (watches, interval) = (&self.duty.watches, self.duty.settings.status_sync_interval);
        let is_any = !watches.refused().is_empty();
        for (work, pass) in &mut self.passes {
            // A work that failed has its backoff.
            let is_idle = is_any && pass.due.is_none();
            let since = if is_idle { watches.refused_since(work) } else { None };
            pass.poll = since.map(|since| pass.ended.map_or(since, |at| at.max(since)) + interval);
        }
    }

    fn forget_absent(&mut self) {
        let (works, records) = (&self.duty.works, &self.duty.records);
        let before = self.passes.len();
        self.passes.retain(|key, _| match key.strip_prefix(RECORD_PREFIX) {
            Some(record) => records.get(record) != Lookup::Absent,
            None => works.get(key) != Lookup::Absent,
        });
        if self.passes.len() < before {
            self.duty.watches.retain(|work| self.passes.contains_key(work));
        }
    }

    fn pass_works(&mut self) {
        let works = self.duty.works.read(|works| works.values().flatten().cloned().collect());
        let works: Vec<Arc<ManifestWork>> = works.unwrap_or_default();
        self.hub.saw(&works);
        for work in works {
            if self.duty.stop.raised() {
                return;
            }
            if let Some(pass) = self.passes.get_mut(work.name()) {
                pass.saw_status(Instant::now(), &work);
            }
            if self.is_due(work.name(), self.fingerprint(&work)) {
                self.pass_work(work.name());
            }
        }
    }

    pub(super) fn is_due(&mut self, key: &str, seen: u64) -> bool {
        let pass = self.passes.entry(key.to_owned()).or_insert_with(|| Pass::new(!seen));
        let is_new = std::mem::replace(&mut pass.seen, seen) != seen;
        let now = Instant::now();
        is_new || [pass.due, pass.poll].into_iter().flatten().any(|due| due <= now)
    }

    /// Digests the input of a pass, but little of the status. For a work being deleted, its record's absence counts.
    fn fingerprint(&self, work: &ManifestWork) -> u64 {
        let metadata = &work.metadata;
        let spec = (&metadata.uid, metadata.generation, &metadata.deletion_timestamp);
        let record = format!("{}-{}", self.agent.hub_hash, work.name());
        let is_gone = work.is_deleting() && self.duty.records.get(&record) == Lookup::Absent;
        digest((spec, &metadata.labels, &metadata.finalizers, work.is_complete(), is_gone))
    }

    fn pass_work(&mut self, name: &str) {
        // The work may have changed during the previous passes.
        let Lookup::Object(work) = self.duty.works.get(name) else { return };
        let seen = self.fingerprint(&work);
        let Some(pass) = self.passes.get_mut(name) else { return };
        (pass.seen, pass.version) = (seen, work.metadata.resource_version.clone());
        pass.memory.status = work.status_digest;
        // A change so long after the last one begins another row.
        if pass.ended.is_some_and(|ended| ended.elapsed() > 2 * MAX_BACKOFF) {
            pass.memory.drifts = 0;
        }
        let objects = objects(&mut self.clients, &work);
        self.duty.watches.follow(name, &objects, &self.duty.managed, &self.duty.stop);
        let result = reconcile(&mut self.clients, &self.agent, &work, &mut pass.memory);
        pass.settle(&result, &MANIFEST_WORKS.object(&self.agent.cluster, name));
    }
}

impl Pass {
    fn new(seen: u64) -> Self {
        let (backoff, memory) = (Backoff::new(MAX_BACKOFF), WorkMemory::default());
        Self { seen, version: None, ended: None, due: None, poll: None, backoff, memory }
    }

    /// Returns whether the last pass left nothing to do.
    pub(super) fn is_done(&self) -> bool {
        self.ended.is_some() && self.backoff.failures() == 0
    }

    /// Hastens a pass if another writer changed the status, or the hub was restored.
    fn saw_status(&mut self, now: Instant, work: &ManifestWork) {
        // Until the watch returns what the pass wrote, the store has the version from before the pass.
        if work.status_digest != self.memory.status
            && work.metadata.resource_version != self.version
        {
            self.hasten(now, STATUS_INTERVAL);
        }
    }

    fn spacing(&self) -> Duration {
        MIN_INTERVAL.saturating_mul(1 << self.memory.drifts.min(6)).min(MAX_BACKOFF)
    }

    /// Makes another pass due, at least `spacing` after the last one.
    fn hasten(&mut self, now: Instant, spacing: Duration) {
        let earliest = self.ended.map_or(now, |ended| now.max(ended + spacing));
        self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
    }

    /// Records the outcome of a pass, and schedules a retry if needed.
    pub(super) fn settle(&mut self, result: &Result<Progress>, target: &Target<'_>) {
        self.ended = Some(Instant::now());
        let wait = match result {
            Ok(Progress::Done) => {
                self.backoff.succeeded();
                self.due = None;
                return;
            }
            Ok(Progress::Pending) => self.backoff.left_undone(fastrand::f64()),
            Err(error) => {
                let retry = self.backoff.failed(error, Instant::now(), fastrand::f64());
                let level = retry.level();
                log_object!(level, target, error:% = error; "the work is tried again");
                retry.wait
            }
        };
        self.due = Some(Instant::now() + wait);
    }
}

#[cfg(test)]
mod tests {
    use apiclient::api::ObjectMeta;

    use super::*;

    #[test]
    fn status_of_another_writer_hastens_a_pass_and_the_written_one_does_not() {
        let (now, mut pass) = (Instant::now(), Pass::new(0));
        let work = |version: &str, status_digest: u64| {
            let mut metadata = ObjectMeta::new(None, "w");
            metadata.resource_version = Some(version.to_owned());
            ManifestWork { metadata, status_digest, ..ManifestWork::default() }
        };
        (pass.ended, pass.version, pass.memory.status) = (Some(now), Some("1".to_owned()), 2);
        for (version, status) in [("1", 1), ("2", 2), ("3", 2)] {
            pass.saw_status(now, &work(version, status));
            assert_eq!(pass.due, None, "{version}");
        }
        pass.saw_status(now, &work("4", 1));
        assert_eq!(pass.due, Some(now + STATUS_INTERVAL), "it went back");
    }

    #[test]
    fn change_of_an_object_hastens_a_pass_and_two_are_a_second_apart() {
        let (now, mut pass) = (Instant::now(), Pass::new(0));
        pass.hasten(now, MIN_INTERVAL);
        assert_eq!(pass.due, Some(now), "none has ended yet");
        (pass.ended, pass.due) = (Some(now), Some(now + MAX_BACKOFF));
        pass.hasten(now, MIN_INTERVAL);
        assert_eq!(pass.due, Some(now + MIN_INTERVAL), "sooner than a failure says");
        (pass.ended, pass.due) = (Some(now), None);
        pass.hasten(now + MAX_BACKOFF, MIN_INTERVAL);
        assert_eq!(pass.due, Some(now + MAX_BACKOFF), "at once after a calm time");
    }
}
