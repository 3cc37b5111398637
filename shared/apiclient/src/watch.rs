//! Watcher of one object or a collection: list, then watch, forever, in bounded memory.

mod events;
mod list;

use std::{
    mem,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use log::Level;

use crate::{
    backoff::Backoff,
    client::Client,
    error::{Error, Result},
    json::Document,
    log_object,
    stop::Stop,
};

use self::{
    events::{EventType, Events},
    list::read_list,
};

pub use self::list::{Selection, list};

/// How much longer than requested a watch may last.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// client-go's longest wait between lists (`tools/cache/reflector.go:62-67`).
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A watch that ends sooner without an event counts as failed (`reflector.go:1091`).
const MIN_WATCH_TIME: Duration = Duration::from_secs(1);

const FAILED: &str = "list or watch failed, keeping the last known state";

#[derive(Debug)]
pub enum Event<'a> {
    /// A list begins; discard an incomplete one.
    Init {
        /// The server may have been restored: the known state may be newer than the list.
        rewound: bool,
    },
    /// An object of the list.
    InitApply(Document),
    /// The list is complete: other objects are gone.
    InitDone,
    /// The watch is established: changes follow as they happen.
    Watching,
    /// An object is new or changed.
    Apply(Document),
    /// An object was deleted, or left the selection; this is its last state.
    Delete(Document),
    /// A request failed and will be retried; the known state stays.
    Failed(&'a Error),
}

/// The state of an endless list and watch, which survives a run and its client.
#[derive(Debug)]
pub struct Watcher {
    next: Step,
    rewound: bool,
    backoff: Backoff,
    /// The last watch failed: a successful list does not reset the backoff.
    watch_failed: bool,
    /// Host and port of the server that the version comes from.
    server: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// A list at least as new as this version; the newest state if it is empty.
    List(String),
    /// A watch from this version on; from the present state if the server gave no usable version.
    Watch(String),
}

type On<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

impl Default for Watcher {
    fn default() -> Self {
        Self {
            next: Step::List(String::new()),
            rewound: false,
            backoff: Backoff::new(MAX_BACKOFF),
            watch_failed: false,
            server: String::new(),
        }
    }
}

impl Watcher {
    /// Forgets the state, as for another server with the same name: a list comes next.
    pub fn reset(&mut self) {
        (self.next, self.rewound) = (Step::List(String::new()), true);
    }

    /// Continues until `on` breaks or `stop` is raised; to end a silent watch, also close the client. Failures are
    /// logged once and retried; they never count as an absence.
    pub fn run(
        &mut self,
        client: &Client,
        selection: &Selection<'_>,
        stop: &Stop,
        on: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) {
        while !stop.raised() {
            let went = match self.next.clone() {
                Step::Watch(version) => self.watch(client, selection, stop, (version, on)),
                Step::List(version) => self.list(client, selection, stop, (version, on)),
            };
            match went {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                // Whoever raised `stop` may have closed the client.
                Err(_) if stop.raised() => return,
                Err(error) => {
                    self.move_on(&error);
                    let retry = self.backoff.failed(&error, Instant::now(), fastrand::f64());
                    retry.log(client.name(), &selection.target, &error, FAILED);
                    if on(Event::Failed(&error)).is_break() {
                        return;
                    }
                    stop.wait(retry.wait);
                }
            }
        }
    }

    fn list(
        &mut self,
        client: &Client,
        selection: &Selection<'_>,
        stop: &Stop,
        (mut version, on): (String, &mut On<'_>),
    ) -> Result<ControlFlow<()>> {
        if self.follow_server(client) {
            version.clear();
        }
        let listed = read_list(client, selection, stop, (&version, self.rewound), on)?;
        let ControlFlow::Continue(version) = listed else {
            return Ok(ControlFlow::Break(()));
        };
        (self.next, self.rewound) = (Step::Watch(version), false);
        if !self.watch_failed {
            self.succeeded(client, selection);
        }
        Ok(on(Event::InitDone))
    }

    fn watch(
        &mut self,
        client: &Client,
        selection: &Selection<'_>,
        stop: &Stop,
        (version, on): (String, &mut On<'_>),
    ) -> Result<ControlFlow<()>> {
        let asked = client.timeouts().watch.as_secs();
        let (started, seconds) = (Instant::now(), fastrand::u64(asked..2 * asked));
        let request = selection.watch(&version, seconds);
        let budget = client.budget(&request);
        let longest = Duration::from_secs(seconds) + WATCH_GRACE;
        let mut stream = Events::open(client, &request, &budget, stop, longest)?;
        if self.follow_server(client) {
            return Ok(ControlFlow::Continue(()));
        }
        // Checked after connecting: whoever raises `stop` closes the client next, and with it open connections only.
        if stop.raised() || on(Event::Watching).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut events = 0_u64;
        let ended = loop {
            match stream.next() {
                Ok(Some(event)) => {
                    if !matches!(event.0, EventType::Bookmark) {
                        selection.check(client, &event.1)?;
                    }
                    self.succeeded(client, selection);
                    if self.handle(event, on).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    events += 1;
                }
                Ok(None) => break stream.lost("the server ended it"),
                Err(error @ (Error::Unreachable(_) | Error::BadPeer(_))) => break error,
                // The server sent an error as an event.
                Err(error) => return Err(error),
            }
        };
        let lasted = started.elapsed();
        if events == 0 && lasted < MIN_WATCH_TIME {
            return Err(ended);
        }
        // Watches end: the server, a load balancer or rotated credentials end them. The next one continues from the
        // same version. After a watch without any event, a list comes first: a server that was restored from a backup
        // stays silent if the version is newer than its own.
        let (target, server) = (selection.target, client.name());
        log_object!(Level::Debug, target, server = server, error:% = ended; "watch ended");
        self.watch_failed = false;
        if events == 0 || selection.list_after_loss && lasted.as_secs() < seconds {
            self.relist();
        }
        if lasted < MIN_WATCH_TIME {
            stop.wait(MIN_WATCH_TIME);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Passes an event on, and continues from its version.
    fn handle(
        &mut self,
        (kind, document): (EventType, Document),
        on: &mut On<'_>,
    ) -> ControlFlow<()> {
        self.watch_failed = false;
        if let Some(version) = usable(document.version()) {
            self.next = Step::Watch(version.to_owned());
        }
        match kind {
            EventType::Apply => on(Event::Apply(document)),
            EventType::Delete => on(Event::Delete(document)),
            EventType::Bookmark => ControlFlow::Continue(()),
        }
    }

    /// Returns whether the client's files now lead to another server. That server might accept the old version, which
    /// means nothing there: a list of the newest state comes next.
    fn follow_server(&mut self, client: &Client) -> bool {
        let before = mem::replace(&mut self.server, client.host());
        let elsewhere = before != self.server && !before.is_empty();
        if elsewhere {
            self.reset();
        }
        elsewhere
    }

    /// Lists next, at least as new as the known state.
    fn relist(&mut self) {
        if let Step::Watch(version) = &mut self.next {
            self.next = Step::List(mem::take(version));
        }
    }

    /// Chooses the next request after a failure: a list, as in client-go.
    fn move_on(&mut self, error: &Error) {
        let was_watch = matches!(self.next, Step::Watch(_));
        self.watch_failed |= was_watch;
        match error {
            Error::TooNew(_) => self.reset(),
            // The version may be the cause.
            Error::Gone(_) | Error::Invalid(_) | Error::BadConfig(_) => {
                self.next = Step::List(String::new());
            }
            _ => self.relist(),
        }
    }

    fn succeeded(&mut self, client: &Client, selection: &Selection<'_>) {
        let failures = self.backoff.succeeded();
        if failures > 0 {
            let (target, server) = (selection.target, client.name());
            log_object!(
                Level::Info, target, server = server, failures = failures;
                "readable again"
            );
        }
    }
}

/// A resourceVersion in the format of API servers, a number of at most 64 bits (KEP-5504). With another one, requests
/// might fail forever.
fn usable(version: &str) -> Option<&str> {
    let digits = version.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (1..=20).contains(&version.len())).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        for good in ["0", "7", "18446744073709551615"] {
            assert_eq!(usable(good), Some(good));
        }
        for bad in ["", "zzz", "-1", "7&watch", "1.5", "٣", &"9".repeat(21), &"9".repeat(66_000)] {
            assert_eq!(usable(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_failure_leads_to_a_list_that_can_succeed() {
        let sentence = || "no".to_owned();
        let newest = || Step::List(String::new());
        let since = || Step::List("7".into());
        for (error, next, rewound) in [
            (Error::Gone(sentence()), newest(), false),
            (Error::TooNew(sentence()), newest(), true),
            (Error::Invalid(sentence()), newest(), false),
            (Error::bad_config(sentence()), newest(), false),
            (Error::Forbidden(sentence()), since(), false),
            (Error::Unreachable(sentence()), since(), false),
        ] {
            for step in [Step::Watch("7".into()), since()] {
                let mut watcher = Watcher { next: step, ..Watcher::default() };
                watcher.move_on(&error);
                assert_eq!((&watcher.next, watcher.rewound), (&next, rewound), "{error:?}");
            }
        }
    }
}
