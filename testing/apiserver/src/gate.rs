//! The state of the whole server, and the gate where connections wait during a hang.

use std::{
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use crate::lock::lock;

/// The behavior of the whole server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// The server works normally.
    #[default]
    Up,
    /// The port refuses, and existing connections are cut.
    Refuse,
    /// Connections are accepted, but neither TLS nor HTTP sends another byte.
    Hang,
    /// Each connection is closed after one answer, without notice.
    CloseAfterAnswer,
    /// The handshake is answered with bytes that are not TLS.
    GarbageHandshake,
    /// The handshake is answered with a fatal TLS alert.
    Alert,
}

/// The gate where connections wait while the server hangs.
#[derive(Default)]
pub(crate) struct Gate {
    now: Mutex<(State, bool)>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn set(&self, state: State) {
        lock(&self.now).0 = state;
        self.changed.notify_all();
    }

    /// Releases all waiting connections so that they end.
    pub(crate) fn stop(&self) {
        lock(&self.now).1 = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.now).1
    }

    /// Waits until the server no longer hangs. Returns None if the connection must end.
    pub(crate) fn pass(&self) -> Option<State> {
        let silent = |now: &mut (State, bool)| !now.1 && now.0 == State::Hang;
        let now = self.changed.wait_while(lock(&self.now), silent);
        let (state, stopped) = *now.unwrap_or_else(|error| error.into_inner());
        (!stopped && state != State::Refuse).then_some(state)
    }

    /// Sleeps, or returns early if the server stops.
    pub(crate) fn sleep(&self, duration: Duration) {
        let until = Instant::now() + duration;
        let mut now = lock(&self.now);
        while !now.1 && Instant::now() < until {
            let rest = until.saturating_duration_since(Instant::now());
            let woken = self.changed.wait_timeout(now, rest);
            now = woken.unwrap_or_else(|error| error.into_inner()).0;
        }
    }
}
