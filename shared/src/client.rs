//! The REST client: one API server, one identity that may change under way, bounded in time and size.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;
use ureq::{
    Agent, Body,
    http::{self, Method, Request, Response},
};

use crate::{
    access::Access,
    call::{Call, JSON, Kind, OBJECT_LIMIT, connection_lost, read_body, reason},
    certificate,
    error::{Error, Result},
    flags::Flags,
    json,
    kubeconfig::{self, Env},
    link::Link,
    lock::lock,
    resource::Target,
    status, time,
};

pub use crate::call::{Patch, Preconditions};

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

/// After files that could not be used (half of a rotated pair, say).
const FILES_AGAIN: Duration = Duration::from_secs(1);
/// A clock that is off by more seconds is worth a line in the log, and by less it is right again.
const SKEW_WORTH_TELLING: i64 = 10;
const SKEW_OVER: i64 = 5;
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
        let guarded = patch["metadata"]["resourceVersion"].is_string();
        self.object(&Call::write(Method::PATCH, *target, kind.content_type(), patch, guarded))
    }

    /// Deletes an object if `preconditions` hold; what dependents it has are left to the collector.
    ///
    /// # Errors
    /// As the server says; `Conflict` when a precondition fails.
    pub fn delete(&self, target: &Target<'_>, preconditions: &Preconditions) -> Result<()> {
        self.json(&Call::delete(*target, preconditions)).map(drop)
    }

    /// Reads a path that is no object, such as `/livez`: the answer's code, whatever it is, and its text.
    ///
    /// # Errors
    /// `Unreachable` or `BadPeer` when there is no answer.
    pub fn text(&self, path: &'static str) -> Result<(u16, String)> {
        let call = Call::text(path);
        let (answer, _) = self.answer(&call)?;
        let code = answer.status().as_u16();
        let body = read_body(answer, call.limit()).map_err(|e| self.lost(&call, &e))?;
        Ok((code, String::from_utf8_lossy(&body).into_owned()))
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

    fn object(&self, call: &Call<'_>) -> Result<Value> {
        let object = self.json(call)?;
        let target = call.target;
        let named = target.name.is_none_or(|name| object["metadata"]["name"] == name);
        let namespace = &object["metadata"]["namespace"];
        let placed = target.namespace.is_none_or(|wanted| namespace == wanted);
        let same = named && placed && object["kind"] == *target.resource.kind;
        // A subresource such as a token answers with a kind of its own.
        if same || target.subresource.is_some() && object["kind"].is_string() {
            return Ok(object);
        }
        Err(self.odd(call, "another object than the one asked for"))
    }

    fn json(&self, call: &Call<'_>) -> Result<Value> {
        let body = read_body(self.send(call)?, call.limit()).map_err(|e| self.lost(call, &e))?;
        json::parse(&body).map_err(|what| self.odd(call, what))
    }

    /// Sends until there is an answer that counts: once more after a 401 with the credentials as they
    /// are now.
    pub(crate) fn send(&self, call: &Call<'_>) -> Result<Response<Body>> {
        let mut refused = false;
        loop {
            let (answer, generation) = self.answer(call)?;
            if answer.status().is_success() {
                return Ok(answer);
            }
            let error = self.refusal(call, answer);
            let again = matches!(error, Error::Unauthorized(_))
                && !std::mem::replace(&mut refused, true)
                && self.other_identity(generation);
            if !again {
                return Err(error);
            }
        }
    }

    /// Sends until there is any answer: once more after a lost connection where that is safe. Also says
    /// which identity asked.
    fn answer(&self, call: &Call<'_>) -> Result<(Response<Body>, u64)> {
        self.look_at_files();
        let mut lost = false;
        loop {
            let (agent, request, generation) = {
                let state = self.state();
                (state.link.agent().clone(), state.link.request(call)?, state.generation)
            };
            let start = Instant::now();
            let answer = if call.kind == Kind::Watch {
                agent.run(self.endless(&agent, request))
            } else {
                agent.run(request)
            };
            match answer {
                Err(e) if call.repeatable && !lost && connection_lost(&e) => lost = true,
                Err(e) => {
                    self.count(call, 0, start);
                    return Err(self.lost(call, &e));
                }
                Ok(answer) => {
                    self.note(call, &answer, start);
                    return Ok((answer, generation));
                }
            }
        }
    }

    /// A watch has no last byte to wait for: its head is bounded as ever, then the time between two reads.
    fn endless(&self, agent: &Agent, request: Request<Vec<u8>>) -> Request<Vec<u8>> {
        agent
            .configure_request(request)
            .timeout_global(None)
            .timeout_recv_response(Some(self.timing.request))
            .timeout_per_read(Some(self.timing.silence))
            .build()
    }

    /// After a 401: whether there is another identity than the one that was refused.
    fn other_identity(&self, refused: u64) -> bool {
        if self.state().generation == refused
            && let Reload::WhenRefused(load) | Reload::FromFiles(load) = &self.reload
            && let Err(e) = self.load_again(load)
        {
            log::debug!("{}'s credentials: {e}", self.whose);
        }
        self.state().generation != refused
    }

    fn load_again(&self, load: &Load) -> Result<bool> {
        let result = load().and_then(|access| self.swap(access));
        let mut reloads = lock(&self.reloads);
        if result.is_ok() {
            reloads.0 += 1
        } else {
            reloads.1 += 1
        }
        result
    }

    fn look_at_files(&self) {
        let Reload::FromFiles(load) = &self.reload else {
            return;
        };
        {
            let mut state = self.state();
            if Instant::now() < state.next_look {
                return;
            }
            state.next_look = Instant::now() + self.timing.files;
        }
        let result = self.load_again(load);
        let mut state = self.state();
        let was_unusable = std::mem::replace(&mut state.files_unusable, result.is_err());
        if let Err(e) = result {
            state.next_look = Instant::now() + FILES_AGAIN.min(self.timing.files);
            if !was_unusable {
                log::warn!("{}'s credentials in use stay: {e}", self.whose);
            }
        }
    }

    fn note(&self, call: &Call<'_>, answer: &Response<Body>, start: Instant) {
        let code = answer.status().as_u16();
        self.count(call, code, start);
        let mut refused = lock(&self.refused);
        *refused = (code == 401).then(|| refused.unwrap_or(start));
        drop(refused);
        let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        let Some(skew) = date.and_then(|date| time::skew(date, SystemTime::now())) else {
            return;
        };
        self.skew.store(skew, Relaxed);
        if skew.abs() < SKEW_OVER {
            self.skew_told.store(false, Relaxed);
        } else if skew.abs() > SKEW_WORTH_TELLING && !self.skew_told.swap(true, Relaxed) {
            let direction = if skew > 0 { "ahead of" } else { "behind" };
            log::warn!("the clock of {} is {} s {direction} ours", self.whose, skew.abs());
        }
    }

    fn count(&self, call: &Call<'_>, code: u16, start: Instant) {
        let mut answers = self.answers();
        let answers = answers.entry((call.method.to_string(), code)).or_default();
        answers.count += 1;
        answers.time += start.elapsed();
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<(String, u16), Answers>> {
        lock(&self.answers)
    }

    fn refusal(&self, call: &Call<'_>, answer: Response<Body>) -> Error {
        let code = answer.status().as_u16();
        let header = answer.headers().get(http::header::RETRY_AFTER);
        let retry_after = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
        // Read to its end, so that the connection can be kept.
        match read_body(answer, OBJECT_LIMIT) {
            Ok(body) => {
                status::error(&self.what(call), &call.target, code, retry_after.as_deref(), &body)
            }
            Err(e) => self.lost(call, &e),
        }
    }

    fn lost(&self, call: &Call<'_>, error: &ureq::Error) -> Error {
        match error {
            ureq::Error::Protocol(_)
            | ureq::Error::BodyExceedsLimit(_)
            | ureq::Error::LargeResponseHeader(..) => self.odd(call, &error.to_string()),
            _ => Error::Unreachable(format!("{}: {}", self.what(call), reason(error))),
        }
    }

    pub(crate) fn odd(&self, call: &Call<'_>, what: &str) -> Error {
        Error::BadPeer(format!("{}: the answer is {what}", self.what(call)))
    }

    pub(crate) fn what(&self, call: &Call<'_>) -> String {
        match call.kind {
            Kind::Text(path) => format!("get {path} on {}", self.whose),
            _ => format!("{} {} on {}", call.verb(), call.target, self.whose),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
