//! Events of a connection, and when its listener hears of them.

use std::time::{Duration, Instant};

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    /// There is a new session.
    Connected,
    /// The session is over.
    Disconnected,
    /// The cluster gave no sign of life for longer than a listener wanted to wait: once per outage.
    NoSuccessFor(Duration),
}

/// Who hears of a connection. `notify` is called by the thread that supervises it, without a lock: it has to
/// return at once.
pub(crate) struct Listener {
    /// After how long without a sign of life it wants to know. A healthy cluster is silent for the
    /// interval of the probes.
    pub(crate) silences: Vec<Duration>,
    /// Takes an event.
    pub(crate) notify: Box<dyn Fn(ConnectionEvent) + Send>,
}

/// Remembers when the listener last heard something.
pub(super) struct Notifier {
    listener: Listener,
    last: Option<Instant>,
    started: Instant,
}

impl Notifier {
    pub(super) fn new(listener: Listener, now: Instant) -> Self {
        Self { listener, last: None, started: now }
    }

    /// Passes on what `happened`, or else that a silence is over.
    pub(super) fn notify(
        &mut self,
        happened: Option<ConnectionEvent>,
        success: Option<Instant>,
        now: Instant,
    ) {
        let success = success.unwrap_or(self.started);
        if let Some(event) = event(happened, self.last, success, &self.listener.silences, now) {
            (self.listener.notify)(event);
            self.last = Some(now);
        }
    }

    /// How long until the listener has to hear of a silence.
    pub(super) fn next(&self, success: Option<Instant>, now: Instant) -> Option<Duration> {
        let success = success.unwrap_or(self.started);
        let silences = self.listener.silences.iter();
        let left = silences.map(|silence| (success + *silence).saturating_duration_since(now));
        // Over means longer than, so a little later.
        left.filter(|left| !left.is_zero()).min().map(|left| left + Duration::from_millis(1))
    }
}

/// What a listener is to hear that last heard something at `told`. All comparisons are strict, so
/// a silence is told once (cluster-api v1.9.0 `controllers/clustercache/cluster_cache.go:624-651`).
pub(super) fn event(
    happened: Option<ConnectionEvent>,
    told: Option<Instant>,
    success: Instant,
    silences: &[Duration],
    now: Instant,
) -> Option<ConnectionEvent> {
    let over = |silence: &&Duration| {
        let end = success + **silence;
        told.is_none_or(|told| told < end) && end < now
    };
    happened.or_else(|| silences.iter().find(over).copied().map(ConnectionEvent::NoSuccessFor))
}
