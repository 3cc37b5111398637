//! Watch of the CSRs of all add-ons together, while one of them waits for a certificate.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiclient::{
    client::Client,
    error::Result,
    json::Document,
    lock::lock,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use sidecar::runtime;

use crate::{
    agent::{Agent, PAGE},
    cached::CachedObject,
    certificate::{
        csr::{CLUSTER_LABEL, CSRS},
        csr_status::ADDON_LABEL,
    },
};

/// CSRs are read this often while no watch of them is open, because of rights or a proxy.
const READ_AGAIN: Duration = Duration::from_secs(15);

/// The CSRs that are awaited.
#[derive(Default)]
pub(super) struct AddOnCsrWatcher {
    shared: Arc<Mutex<AwaitedCsrs>>,
    /// Ends the watch, if there is one.
    stop: Option<Stop>,
}

#[derive(Default)]
struct AwaitedCsrs {
    all: Vec<AwaitedCsr>,
    /// The watch is open.
    watching: bool,
}

struct AwaitedCsr {
    name: String,
    seen: CachedObject,
    /// Events about it so far.
    events: u64,
    /// The time of the last answer about it.
    read: Instant,
    /// It is in the list that has begun.
    listed: bool,
}

impl AddOnCsrWatcher {
    /// Awaits the CSR `name`, of which so much is known.
    ///
    /// # Errors
    /// `BadConfig` when the system gives no thread.
    pub(super) fn wait_for(
        &mut self,
        (agent, client): (&Agent, &Client),
        cluster: &str,
        name: &str,
        known: CachedObject,
    ) -> Result<()> {
        let csr = AwaitedCsr {
            name: name.to_owned(),
            seen: known,
            events: 0,
            read: Instant::now(),
            listed: false,
        };
        lock(&self.shared).all.push(csr);
        if self.stop.is_some() {
            return Ok(());
        }
        let (stop, wakes) = (agent.stop.child(), agent.stop.clone());
        let (shared, client, until) = (self.shared.clone(), client.clone(), stop.clone());
        let labels = format!("{CLUSTER_LABEL}={cluster},{ADDON_LABEL}");
        runtime::spawn("addon-csrs", move || follow(&client, &labels, &shared, &until, &wakes))?;
        self.stop = Some(stop);
        Ok(())
    }

    /// The CSR `name` as it is known, if it is awaited.
    pub(super) fn seen(&self, name: &str, now: Instant) -> Option<CachedObject> {
        let shared = lock(&self.shared);
        let csr = shared.all.iter().find(|csr| csr.name == name)?;
        let is_old = !shared.watching && now >= csr.read + READ_AGAIN;
        Some(if is_old { CachedObject::Unknown } else { csr.seen.clone() })
    }

    /// The number of events about the CSR so far; read it before a request, for [`Self::answered`].
    pub(super) fn events(&self, name: &str) -> u64 {
        let shared = lock(&self.shared);
        shared.all.iter().find(|csr| csr.name == name).map_or(0, |csr| csr.events)
    }

    /// Records the CSR of an answer, unless the watch has had more than `events` events about it: these are newer.
    pub(super) fn answered(&self, name: &str, seen: CachedObject, events: u64) {
        if let Some(csr) = lock(&self.shared).get_mut(name) {
            csr.read = Instant::now();
            if csr.events == events {
                csr.seen = seen;
            }
        }
    }

    /// Awaits the CSR `name` no more; the watch ends with the last.
    pub(super) fn forget(&mut self, name: &str) {
        let mut shared = lock(&self.shared);
        shared.all.retain(|csr| csr.name != name);
        if shared.all.is_empty() {
            shared.watching = false;
            drop(shared);
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.raise();
        }
        // The thread that ends may still get an event: it must not count for the next watch.
        let left = std::mem::take(&mut *lock(&self.shared));
        self.shared = Arc::new(Mutex::new(left));
    }
}

impl Drop for AddOnCsrWatcher {
    fn drop(&mut self) {
        self.end();
    }
}

fn follow(client: &Client, labels: &str, shared: &Mutex<AwaitedCsrs>, stop: &Stop, wakes: &Stop) {
    let all = CSRS.everywhere();
    let selection = Selection { labels, page: PAGE, ..Selection::all(all) };
    Watcher::default().run(client, &selection, stop, &mut |event| {
        let mut awaited = lock(shared);
        match event {
            Event::InitApply(csr) | Event::Apply(csr) => see(&mut awaited, csr, false),
            Event::Delete(csr) => see(&mut awaited, csr, true),
            Event::Watching => awaited.watching = true,
            Event::Failed(_) => awaited.watching = false,
            Event::Init { .. } => awaited.all.iter_mut().for_each(|csr| csr.listed = false),
            Event::InitDone => awaited.all.iter_mut().for_each(AwaitedCsr::conclude_list),
        }
        drop(awaited);
        wakes.wake();
        match stop.raised() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
}

impl AwaitedCsrs {
    fn get_mut(&mut self, name: &str) -> Option<&mut AwaitedCsr> {
        self.all.iter_mut().find(|csr| csr.name == name)
    }
}

impl AwaitedCsr {
    /// One that is known and not in the list has to be read: it may be gone, or newer than the list.
    fn conclude_list(&mut self) {
        if !self.listed && matches!(self.seen, CachedObject::Object(_)) {
            self.seen = CachedObject::Unknown;
        }
    }
}

fn see(awaited: &mut AwaitedCsrs, csr: Document, gone: bool) {
    let Some(known) = awaited.get_mut(csr.name()) else { return };
    known.events += 1;
    known.listed = true;
    known.read = Instant::now();
    known.seen = match csr {
        _ if gone => CachedObject::Absent,
        Document::Whole(csr) => CachedObject::Object(csr),
        // It is read by itself, which says what is wrong with it.
        Document::TooLarge(_) => CachedObject::Unknown,
    };
}
