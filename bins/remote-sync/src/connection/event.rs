//! What consumers are told of a connection, and when.

use std::time::{Duration, Instant};

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    /// There is a new session.
    Connected,
    /// The session is over.
    Disconnected,
    /// The cluster gave no sign of life for longer than a consumer wanted to wait: once per outage.
    NoSuccessFor(Duration),
}

/// Who is told. `tell` is called by the thread that supervises the connection, without a lock: it has to
/// return at once, by pushing onto a queue of its own for example.
pub(crate) struct Consumer {
    /// After how long without a sign of life it wants to know. A healthy cluster is silent for the
    /// interval of the probes.
    pub(crate) silences: Vec<Duration>,
    /// Takes an event.
    pub(crate) tell: Box<dyn Fn(ConnectionEvent) + Send>,
}

/// Remembers when which consumer was told something.
pub(super) struct Teller {
    consumers: Vec<(Consumer, Option<Instant>)>,
    started: Instant,
}

impl Teller {
    pub(super) fn new(consumers: Vec<Consumer>, now: Instant) -> Self {
        let consumers = consumers.into_iter().map(|consumer| (consumer, None)).collect();
        Self { consumers, started: now }
    }

    /// Tells every consumer what `happened`, or else that its silence is over.
    pub(super) fn tell(
        &mut self,
        happened: Option<ConnectionEvent>,
        success: Option<Instant>,
        now: Instant,
    ) {
        let success = success.unwrap_or(self.started);
        for (consumer, told) in &mut self.consumers {
            if let Some(event) = event(happened, *told, success, &consumer.silences, now) {
                (consumer.tell)(event);
                *told = Some(now);
            }
        }
    }

    /// How long until a consumer has to be told of a silence.
    pub(super) fn next(&self, success: Option<Instant>, now: Instant) -> Option<Duration> {
        let success = success.unwrap_or(self.started);
        let silences = self.consumers.iter().flat_map(|(consumer, _)| &consumer.silences);
        let left = silences.map(|silence| (success + *silence).saturating_duration_since(now));
        // Over means longer than, so a little later.
        left.filter(|left| !left.is_zero()).min().map(|left| left + Duration::from_millis(1))
    }
}

/// What a consumer is to be told that was last told something at `told`. All comparisons are strict, so
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
