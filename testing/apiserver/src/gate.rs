//! The state of the whole server, and the place where connections wait while it hangs.

use std::{
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::lock::lock;

/// How the server as a whole behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Normally.
    #[default]
    Up,
    /// Nobody listens, connections are cut.
    Refuse,
    /// Connections are accepted, but neither TLS nor HTTP says a word any more.
    Hang,
    /// New connections time out (the backlog is full), existing ones are silent.
    Partition,
    /// Each connection is closed after one answer, without announcing it.
    CloseAfterAnswer,
    /// Bytes that are no TLS instead of a handshake.
    GarbageHandshake,
    /// A fatal TLS alert instead of a handshake.
    Alert,
}

/// Where connections wait while the server hangs.
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

    /// Lets everybody through who waits, to their end.
    pub(crate) fn stop(&self) {
        lock(&self.now).1 = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.now).1
    }

    pub(crate) fn state(&self) -> State {
        lock(&self.now).0
    }

    /// Waits until the server is neither hanging nor cut off. None where the connection must end.
    pub(crate) fn pass(&self) -> Option<State> {
        let silent =
            |now: &mut (State, bool)| !now.1 && matches!(now.0, State::Hang | State::Partition);
        let now = self.changed.wait_while(lock(&self.now), silent);
        let (state, stopped) = *now.unwrap_or_else(|error| error.into_inner());
        (!stopped && state != State::Refuse).then_some(state)
    }

    /// Sleeps unless the server stops meanwhile.
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
