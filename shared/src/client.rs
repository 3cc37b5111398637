//! The REST client: one API server, one identity that may change under way, bounded in time and size.

mod exchange;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;
use ureq::http::Method;

use crate::{
    access::Access,
    call::{Call, JSON},
    certificate,
    error::Result,
    flags::Flags,
    kubeconfig::{self, Env},
    link::Link,
    lock::lock,
    resource::Target,
};

pub use crate::call::{Patch, Preconditions, Propagation};

/// Gives the credentials as they are now.
pub type Load = Box<dyn Fn() -> Result<Access> + Send + Sync>;

/// When credentials are loaded again.
pub enum Reload {
    /// Never: whoever made the client calls [`Client::swap`].
    Never,
    /// Once when the server says 401.
    WhenRefused(Load),
    /// As files are: also before a request, when the last look was long ago.
    FromFiles(Load),
}

/// Stands for no answer yet.
const UNKNOWN_SKEW: i64 = i64::MIN;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// A request, from its start to the last byte of its answer.
    pub request: Duration,
    /// Between two looks at files.
    pub files: Duration,
    /// A watch may be silent for this long before it counts as dead.
    pub silence: Duration,
}

impl Timing {
    /// The usual times, with `request` for a request.
    ///
    /// Files: a minute less the leeway that client-go takes (`transport/token_source.go:72-79`).
    /// Silence: bookmarks come about once a minute (apiserver `pkg/storage/cacher/cacher.go`,
    /// defaultBookmarkFrequency).
    pub fn with_request(request: Duration) -> Self {
        Self { request, files: Duration::from_secs(50), silence: Duration::from_secs(100) }
    }
}

/// A client for one API server. Shared between threads; a request holds no lock while it waits.
pub struct Client {
    whose: String,
    timing: Timing,
    state: Mutex<State>,
    reload: Reload,
    skew: AtomicI64,
    skew_told: AtomicBool,
    answers: Mutex<BTreeMap<(String, u16), Answers>>,
    reloads: Mutex<(u64, u64)>,
    refused: Mutex<Option<Instant>>,
    born: Instant,
    /// Milliseconds from `born` to a moment after it; 0 for never.
    heard: AtomicU64,
}

/// The answers of one method and code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    /// How many.
    pub count: u64,
    /// How long they took together, up to the head of the answer.
    pub time: Duration,
}

struct State {
    link: Link,
    /// Counts identities, so that a request knows whether it was cut off by a change of them.
    generation: u64,
    next_look: Instant,
    files_unusable: bool,
}

impl Client {
    /// A client for `access`; `whose` names the server in messages ("the hub").
    ///
    /// # Errors
    /// `BadConfig` when TLS or the proxy cannot be set up.
    pub fn new(whose: &str, access: Access, reload: Reload, timing: Timing) -> Result<Self> {
        let state = State {
            link: Link::new(access, timing.request)?,
            generation: 0,
            next_look: Instant::now() + timing.files,
            files_unusable: false,
        };
        Ok(Self {
            whose: whose.to_owned(),
            timing,
            state: Mutex::new(state),
            reload,
            skew: AtomicI64::new(UNKNOWN_SKEW),
            skew_told: AtomicBool::new(false),
            answers: Mutex::default(),
            reloads: Mutex::default(),
            refused: Mutex::default(),
            born: Instant::now(),
            heard: AtomicU64::new(0),
        })
    }

    /// A client for the cluster that this program runs on, as -kubeconfig and -master say, with
    /// `request` for a request.
    ///
    /// # Errors
    /// `BadConfig` when its kubeconfig cannot be used.
    pub fn of_own_cluster(flags: &Flags, request: Duration) -> Result<Self> {
        let file = flags.some("kubeconfig").map(PathBuf::from);
        let master = flags.some("master").map(str::to_owned);
        let load = move || kubeconfig::load(file.as_deref(), master.as_deref(), &Env::process());
        let (access, reload) = (load()?, Reload::FromFiles(Box::new(load)));
        Self::new("the managed cluster", access, reload, Timing::with_request(request))
    }

    /// Reads an object.
    ///
    /// # Errors
    /// As the server says; `NotFound` only if it names this object.
    pub fn get(&self, target: &Target<'_>) -> Result<Value> {
        self.object(&Call::get(*target))
    }

    /// Reads a collection, or the page of it that `query` (`limit=…&continue=…`) asks for; of a target
    /// with a name, the list that holds just this object, or nothing.
    ///
    /// # Errors
    /// As the server says; `Gone` when the resourceVersion or page is too old.
    pub fn list(&self, target: &Target<'_>, query: &str) -> Result<Value> {
        let call = Call::list(*target, query);
        let list = self.json(&call)?;
        // Anything else must not be taken for an empty list, which would mean that all is gone.
        let is_list = list["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if is_list && (list["items"].is_array() || list["items"].is_null()) {
            return Ok(list);
        }
        Err(self.odd(&call, "not a list"))
    }

    /// Creates an object; never repeated, as a first try that was cut off may have done it.
    ///
    /// # Errors
    /// As the server says; `AlreadyExists` when there is one.
    pub fn create(&self, target: &Target<'_>, object: &Value) -> Result<Value> {
        let target = if target.subresource.is_some() { *target } else { target.siblings() };
        self.object(&Call::write(Method::POST, target, JSON, object, false))
    }

    /// Replaces an object as a whole, if it still has the resourceVersion in `object`.
    ///
    /// # Errors
    /// As the server says; `Conflict` when it changed meanwhile.
    pub fn replace(&self, target: &Target<'_>, object: &Value) -> Result<Value> {
        let guarded = object["metadata"]["resourceVersion"].is_string();
        self.object(&Call::write(Method::PUT, *target, JSON, object, guarded))
    }

    /// Changes parts of an object.
    ///
    /// # Errors
    /// As the server says.
    pub fn patch(&self, target: &Target<'_>, kind: Patch, patch: &Value) -> Result<Value> {
        let guarded = match patch.as_array() {
            Some(steps) => steps.iter().any(|step| step["path"] == "/metadata/resourceVersion"),
            None => patch["metadata"]["resourceVersion"].is_string(),
        };
        self.object(&Call::write(Method::PATCH, *target, kind.content_type(), patch, guarded))
    }

    /// Deletes an object if `preconditions` hold, or begins to: it may wait for finalizers and dependents.
    ///
    /// # Errors
    /// As the server says; `Conflict` when a precondition fails.
    pub fn delete(
        &self,
        target: &Target<'_>,
        propagation: Propagation,
        preconditions: &Preconditions,
    ) -> Result<()> {
        self.json(&Call::delete(*target, propagation, preconditions)).map(drop)
    }

    /// Reads a path that is no object, such as `/livez`: the answer's code, whatever it is, and its text.
    ///
    /// # Errors
    /// `Unreachable` or `BadPeer` when there is no answer.
    pub fn text(&self, path: &str) -> Result<(u16, String)> {
        self.read_text(&Call::text(path, None))
    }

    /// As [`Client::text`], in a time of its own.
    ///
    /// # Errors
    /// `Unreachable` or `BadPeer` when there is no answer.
    pub fn text_within(&self, path: &str, timeout: Duration) -> Result<(u16, String)> {
        self.read_text(&Call::text(path, Some(timeout)))
    }

    /// Uses another identity or server from the next request on; old connections are closed, also
    /// those of running watches, so that they come back with the new identity. `false` if `access` is
    /// what is in use already.
    ///
    /// # Errors
    /// `BadConfig` when the new one cannot be used: the old one stays.
    pub fn swap(&self, access: Access) -> Result<bool> {
        let mut state = self.state();
        if *state.link.access() == access {
            return Ok(false);
        }
        let old = if state.link.same_connection(&access) {
            state.link.set_headers(access)?;
            None
        } else {
            let fresh = Link::new(access, self.timing.request)?;
            Some(std::mem::replace(&mut state.link, fresh))
        };
        state.generation += 1;
        *lock(&self.refused) = None;
        let host = state.link.host();
        drop(state);
        if let Some(old) = old {
            if old.host() != host {
                // The counts go with the host that they are about.
                self.answers().clear();
            }
            old.shut_down();
        }
        log::info!("{}'s credentials were rotated", self.whose);
        Ok(true)
    }

    /// Counts the identities so far: another number, another identity.
    pub fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Since when every answer was 401, if the last one was.
    pub fn refused_since(&self) -> Option<Instant> {
        *lock(&self.refused)
    }

    /// When the last byte of a successful answer or of an event of a watch came.
    pub fn heard(&self) -> Option<Instant> {
        match self.heard.load(Relaxed) {
            0 => None,
            milliseconds => Some(self.born + Duration::from_millis(milliseconds)),
        }
    }

    /// Ends what runs on this client, watches among them; a later request would connect anew.
    pub fn close(&self) {
        let agent = self.state().link.agent().clone();
        agent.shutdown();
    }

    /// How often credentials were loaded again: with success, and in vain.
    pub fn reloads(&self) -> (u64, u64) {
        *lock(&self.reloads)
    }

    /// The credentials in use.
    pub fn access(&self) -> Access {
        self.state().link.access().clone()
    }

    /// How far the server's clock is ahead of ours, in seconds, by the last answer with a date.
    pub fn clock_skew(&self) -> Option<i64> {
        Some(self.skew.load(Relaxed)).filter(|skew| *skew != UNKNOWN_SKEW)
    }

    /// The answers so far, by method and code; `<error>` stands for none, as in client-go.
    pub fn answered(&self) -> Vec<(String, String, Answers)> {
        let code = |code: u16| {
            if code == 0 { "<error>".to_owned() } else { code.to_string() }
        };
        let answers = self.answers();
        answers.iter().map(|((method, c), answers)| (method.clone(), code(*c), *answers)).collect()
    }

    /// When the client certificate in use ends.
    pub fn certificate_expiry(&self) -> Option<SystemTime> {
        certificate::expiry(&self.state().link.access().identity.as_ref()?.certificate)
    }

    /// The server's host and port.
    pub fn host(&self) -> String {
        self.state().link.host()
    }

    /// The name of the server in messages.
    pub fn whose(&self) -> &str {
        &self.whose
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<(String, u16), Answers>> {
        lock(&self.answers)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
