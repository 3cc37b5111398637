//! Events of a connection, and when its listener is notified.

use std::time::{Duration, Instant};

/// A change of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    /// A session started.
    Connected,
    /// The session ended.
    Disconnected,
    /// The cluster has not responded for one of the listener's periods; once per outage and period.
    NoSuccessFor(Duration),
}

/// The listener of a connection. The supervising thread calls `notify` without a lock; it must not block.
pub(crate) struct Listener {
    /// Periods without a response after which it is notified. A healthy cluster may be silent for the interval
    /// between probes.
    pub(crate) silences: Vec<Duration>,
    /// Handles an event.
    pub(crate) notify: Box<dyn Fn(ConnectionEvent) + Send>,
}

/// Notifies the listener, and remembers when it last did.
pub(super) struct Notifier {
    listener: Listener,
    last: Option<Instant>,
    started: Instant,
}

impl Notifier {
    pub(super) fn new(listener: Listener, now: Instant) -> Self {
        Self { listener, last: None, started: now }
    }

    /// Passes on what `happened`, or otherwise that a period without a response is over.
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

    /// The time until the next such period is over.
    pub(super) fn next(&self, success: Option<Instant>, now: Instant) -> Option<Duration> {
        let success = success.unwrap_or(self.started);
        let silences = self.listener.silences.iter();
        let left = silences.map(|silence| (success + *silence).saturating_duration_since(now));
        // Over means strictly longer, so a little later.
        left.filter(|left| !left.is_zero()).min().map(|left| left + Duration::from_millis(1))
    }
}

/// The event for a listener that was last notified at `notified`. All comparisons are strict, so that each
/// period is reported once (cluster-api v1.9.0 `controllers/clustercache/cluster_cache.go:624-651`).
pub(super) fn event(
    happened: Option<ConnectionEvent>,
    notified: Option<Instant>,
    success: Instant,
    silences: &[Duration],
    now: Instant,
) -> Option<ConnectionEvent> {
    let over = |silence: &&Duration| {
        let end = success + **silence;
        notified.is_none_or(|notified| notified < end) && end < now
    };
    happened.or_else(|| silences.iter().find(over).copied().map(ConnectionEvent::NoSuccessFor))
}
