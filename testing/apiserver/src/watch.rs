//! One watch: initial events, reported changes and their event types, bookmarks, and its end.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    ca::random,
    cluster::Cluster,
    form::Form,
    kinds, read,
    resources::Resource,
    selectors::Selector,
    status::Status,
    store::{Change, Event},
    target::{Query, Target},
};

/// The next item of a watch.
pub(crate) enum Next {
    /// One event, including the line feed.
    Line(Vec<u8>),
    /// No event yet.
    Quiet,
    End,
}

pub(crate) struct Watch {
    resource: Arc<Resource>,
    api_version: String,
    form: Form,
    selector: Selector,
    /// None if the watch has only its first lines (an error).
    events: Option<Receiver<Arc<Event>>>,
    first: VecDeque<Value>,
    /// Changes up to this version are not reported; bookmarks carry it.
    version: u64,
    ends: Instant,
    bookmark: Option<Instant>,
    bookmark_every: Duration,
}

impl Watch {
    pub(crate) fn new(
        cluster: &Cluster,
        resource: Arc<Resource>,
        target: &Target,
        query: &Query,
        form: Form,
    ) -> Result<Self, Status> {
        let bookmark_every = cluster.bookmarks;
        let with_bookmarks = query.flag("allowWatchBookmarks");
        let mut watch = Self {
            selector: Self::selector(&resource, target, query)?,
            api_version: target.version.clone(),
            form,
            events: None,
            first: VecDeque::new(),
            version: 0,
            ends: Instant::now() + lifetime(query)?,
            bookmark: with_bookmarks.then(|| Instant::now() + bookmark_every),
            bookmark_every,
            resource,
        };
        watch.begin(cluster, target, query)?;
        Ok(watch)
    }

    fn selector(resource: &Resource, target: &Target, query: &Query) -> Result<Selector, Status> {
        match target.name.as_str() {
            "" => read::selector(resource, query),
            name => Selector::new(None, Some(&format!("metadata.name={name}")), resource),
        }
    }

    fn begin(&mut self, cluster: &Cluster, target: &Target, query: &Query) -> Result<(), Status> {
        let asked = read::version(query)?;
        let storage = self.resource.storage();
        let namespace = if self.resource.namespaced { target.namespace.as_str() } else { "" };
        let from = match asked {
            Some(version) if version > 0 => version,
            _ => {
                let (snapshot, events) = cluster.store.snapshot_and_watch(&storage, namespace);
                self.version = snapshot.version;
                self.events = Some(events);
                let objects = snapshot.objects.iter().map(|(_, object)| object);
                let shown = objects.filter(|object| self.selector.matches(object));
                self.first = shown.map(|o| self.event("ADDED", (**o).clone())).collect();
                return Ok(());
            }
        };
        self.version = from;
        if from > cluster.store.version() {
            // Measured: a watch from a future version stays silent, even without bookmarks.
            self.bookmark = None;
        }
        self.events = cluster.store.watch(&storage, namespace, from);
        if self.events.is_none() {
            let oldest = cluster.store.compacted();
            let status = Status::expired(format!("too old resource version: {from} ({oldest})"));
            // A 200 with an ERROR event, like the real server's watch cache.
            self.first.push_back(json!({"type": "ERROR", "object": status.json()}));
        }
        Ok(())
    }

    /// Returns the next item; waits for it up to `patience`.
    pub(crate) fn next(&mut self, patience: Duration) -> Next {
        if let Some(event) = self.first.pop_front() {
            return line(&event);
        }
        let now = Instant::now();
        let Some(events) = self.events.as_ref().filter(|_| now < self.ends) else {
            return Next::End;
        };
        let due = self.bookmark.map_or(self.ends, |at| at.min(self.ends));
        match events.recv_timeout(patience.min(due.saturating_duration_since(now))) {
            Ok(event) => self.report(&event).map_or(Next::Quiet, |event| line(&event)),
            Err(RecvTimeoutError::Disconnected) => Next::End,
            Err(RecvTimeoutError::Timeout) => self.due_bookmark(),
        }
    }

    /// Returns a bookmark if due; the real server sends the last one shortly before the end.
    fn due_bookmark(&mut self) -> Next {
        let now = Instant::now();
        let Some(at) = self.bookmark.filter(|at| now >= *at || now >= self.ends) else {
            return Next::Quiet;
        };
        self.bookmark = (now < self.ends).then(|| at + self.bookmark_every);
        line(&self.bookmark_event())
    }

    /// Returns a change as this watch reports it: DELETED if an object leaves the selection, ADDED if it enters it.
    fn report(&mut self, event: &Event) -> Option<Value> {
        if event.version <= self.version {
            return None;
        }
        self.version = event.version;
        let before = event.before.as_ref().filter(|before| self.selector.matches(before));
        let is_in = event.change != Change::Deleted && self.selector.matches(&event.object);
        match (before, is_in) {
            (None, false) => None,
            (None, true) => Some(self.event("ADDED", (*event.object).clone())),
            (Some(_), true) => Some(self.event("MODIFIED", (*event.object).clone())),
            (Some(before), false) => {
                let mut last = (**before).clone();
                last["metadata"]["resourceVersion"] = event.version.to_string().into();
                Some(self.event("DELETED", last))
            }
        }
    }

    fn event(&self, kind: &str, object: Value) -> Value {
        let object = self.form.render(kinds::present(&self.resource, &self.api_version, object));
        json!({"type": kind, "object": object})
    }

    fn bookmark_event(&self) -> Value {
        let object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version(&self.api_version),
            "metadata": {"resourceVersion": self.version.to_string(), "creationTimestamp": null},
        });
        json!({"type": "BOOKMARK", "object": self.form.render(object)})
    }
}

fn line(event: &Value) -> Next {
    let mut line = event.to_string().into_bytes();
    line.push(b'\n');
    Next::Line(line)
}

/// Returns `timeoutSeconds`, or a random time of 30 to 60 minutes like the real server.
fn lifetime(query: &Query) -> Result<Duration, Status> {
    let seconds = match query.text("timeoutSeconds").filter(|text| *text != "0") {
        Some(text) => {
            text.parse().map_err(|_| Status::bad_request("timeoutSeconds: not a number"))?
        }
        None => 1800 + u64::from(u16::from_le_bytes(random())) % 1800,
    };
    Ok(Duration::from_secs(seconds))
}
