//! CSRs on a hub as one requester sees them: a watch says which of them changed, a GET what they are.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiclient::{
    client::Client,
    error::{Error, Result},
    json::Document,
    lock::lock,
    log_object,
    stop::Stop,
    watch::{self, Event, LastError, Selection, Watcher},
};
use log::Level;
use serde_json::Value;
use sidecar::runtime;

use super::{csr::CSRS, csr_status::MOST_PENDING};
use crate::agent::{Agent, PAGE};

/// A CSR is read this often while no watch is open, because of rights or a proxy.
const REREAD_INTERVAL: Duration = Duration::from_secs(15);

/// The awaited CSRs of one client; no watch is open while none is awaited.
#[derive(Default)]
pub(crate) struct CsrWatch {
    changes: Arc<Mutex<Changes>>,
    reads: BTreeMap<String, Read>,
    stop: Option<Stop>,
}

/// What the watch has said so far.
#[derive(Default)]
struct Changes {
    is_open: bool,
    /// Events about each awaited CSR.
    events: BTreeMap<String, u64>,
}

struct Read {
    csr: Option<Value>,
    /// Events before the read: any later one makes it stale.
    events: u64,
    at: Instant,
}

impl CsrWatch {
    /// The CSR `name`, or `None` if it does not exist. It is read again only after an event, or from time to time while
    /// no watch is open.
    pub(crate) fn get(
        &mut self,
        agent: &Agent,
        client: &Client,
        labels: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>> {
        let (events, is_open) = {
            let mut changes = lock(&self.changes);
            (*changes.events.entry(name.to_owned()).or_default(), changes.is_open)
        };
        if self.stop.is_none()
            && let Err(error) = self.start(agent, client, labels, name)
        {
            let target = CSRS.cluster_object(name);
            log_object!(Level::Debug, target, error:% = error; "the CSR is not watched");
        }
        let now = Instant::now();
        let is_fresh =
            |read: &&Read| read.events == events && (is_open || now < read.at + REREAD_INTERVAL);
        if let Some(read) = self.reads.get(name).filter(is_fresh) {
            return Ok(read.csr.clone());
        }
        let csr = match client.get(&CSRS.cluster_object(name)) {
            Ok(csr) => Some(csr),
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        self.reads.insert(name.to_owned(), Read { csr: csr.clone(), events, at: now });
        Ok(csr)
    }

    /// The CSR `name` is about to change: the next [`Self::get`] reads it.
    pub(crate) fn invalidate(&mut self, name: &str) {
        self.reads.remove(name);
    }

    /// Stops awaiting the CSR `name`; the watch ends with the last one.
    pub(crate) fn forget(&mut self, name: &str) {
        self.reads.remove(name);
        let mut changes = lock(&self.changes);
        changes.events.remove(name);
        let is_last = changes.events.is_empty();
        drop(changes);
        if is_last {
            self.close();
        }
    }

    pub(crate) fn close(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.raise();
        }
        self.reads.clear();
        // The thread that ends may still get an event, which must not count for the next watch.
        self.changes = Arc::default();
    }

    /// Watches the CSRs with these labels, or else the one of this name.
    fn start(
        &mut self,
        agent: &Agent,
        client: &Client,
        labels: Option<&str>,
        name: &str,
    ) -> Result<()> {
        let (stop, wakes) = (agent.stop.child(), agent.stop.clone());
        let (changes, client, until) = (self.changes.clone(), client.clone(), stop.clone());
        let (labels, name) = (labels.map(str::to_owned), name.to_owned());
        let last_error = agent.errors.csr.clone();
        runtime::spawn("csrs", move || {
            let target = match labels {
                Some(_) => CSRS.everywhere(),
                None => CSRS.cluster_object(&name),
            };
            let labels = labels.as_deref().unwrap_or_default();
            let selection = Selection { labels, page: PAGE, ..Selection::all(target) };
            follow(&client, &selection, &changes, &last_error, (&until, &wakes));
        })?;
        self.stop = Some(stop);
        Ok(())
    }
}

impl Drop for CsrWatch {
    fn drop(&mut self) {
        self.close();
    }
}

fn follow(
    client: &Client,
    selection: &Selection<'_>,
    changes: &Mutex<Changes>,
    last_error: &LastError,
    (until, wakes): (&Stop, &Stop),
) {
    Watcher::default().run(client, selection, until, &mut |event| {
        let is_news = lock(changes).take(&event);
        match event {
            Event::Watching => last_error.set(None),
            Event::Failed(error) => last_error.set(Some(error)),
            _ => {}
        }
        if is_news {
            wakes.wake();
        }
        match until.raised() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    last_error.set(None);
}

impl Changes {
    /// Counts an event; returns whether it concerns an awaited CSR.
    fn take(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Apply(csr) | Event::Delete(csr) => {
                let known = self.events.get_mut(csr.name());
                known.map(|events| *events += 1).is_some()
            }
            // A CSR that changed or went while no watch was open has no event of its own.
            Event::InitDone => {
                self.events.values_mut().for_each(|events| *events += 1);
                true
            }
            Event::Watching | Event::Failed(_) => {
                self.is_open = matches!(event, Event::Watching);
                false
            }
            Event::Init { .. } | Event::InitApply(_) => false,
        }
    }
}

/// The names of the pending CSRs with these labels that are `ours`, up to the limit; none without the right to list
/// them, as one may still post.
pub(crate) fn list_pending(
    client: &Client,
    labels: &str,
    stop: &Stop,
    is_ours: &dyn Fn(&Value) -> bool,
) -> Result<Vec<String>> {
    let selection = Selection { labels, page: PAGE, ..Selection::all(CSRS.everywhere()) };
    let mut pending = Vec::new();
    let listed = watch::list(client, &selection, stop, &mut |csr| {
        if let Document::Whole(object) = &csr
            && is_ours(object)
        {
            pending.push(csr.name().to_owned());
        }
        match pending.len() < MOST_PENDING {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    match listed {
        Err(error @ Error::Forbidden(_)) => {
            log::info!(labels = labels, error:% = error; "pending CSRs are not counted");
            Ok(Vec::new())
        }
        listed => listed.map(|_| pending),
    }
}
