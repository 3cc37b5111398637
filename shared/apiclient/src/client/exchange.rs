//! Sends a request and reads its answer: with time limits, repeated where that is safe, and counted.

use std::{
    io,
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, error::Category};
use ureq::{
    Agent, Body,
    http::{
        HeaderName, Request, Response,
        header::{CONTENT_TYPE, DATE, RETRY_AFTER},
    },
};

use crate::{
    client::{
        request::{ApiRequest, MAX_TEXT, ResponseKind, connection_lost, read_body, reason},
        status,
    },
    error::{Error, Result},
    json::{self, Document},
    time,
};

use super::{Client, Load, Refused, Reload, ServerClock};

/// A larger clock skew, in seconds, is logged.
const MAX_SKEW: i64 = 10;
/// How often a silent watch checks whether it should end. A pause within an event must be shorter.
const CHECK_INTERVAL: Duration = Duration::from_secs(20);

/// The time limit of a list, by which its pages expire (etcd compacts every 5 minutes, apiserver
/// `pkg/storage/storagebackend/config.go`, DefaultCompactInterval).
pub const LIST_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// A request, from its start to the last byte of its answer.
    pub request: Duration,
    /// Between two reads of credential files.
    pub files: Duration,
    /// The longest silence of a watch before it counts as dead.
    pub silence: Duration,
    /// The minimum duration to request for a watch; the maximum is twice as long.
    pub watch: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::with_request(Self::REQUEST)
    }
}

impl Timeouts {
    pub const REQUEST: Duration = Duration::from_secs(10);

    /// The default limits, with `request` for a request.
    ///
    /// Files: a minute less the leeway that client-go takes (`transport/token_source.go:72-79`).
    /// Silence: bookmarks come about once a minute (apiserver `pkg/storage/cacher/cacher.go`,
    /// defaultBookmarkFrequency).
    /// Watch: client-go draws from 5 to 10 minutes (`tools/cache/reflector.go:57-58`).
    pub fn with_request(request: Duration) -> Self {
        Self {
            request,
            files: Duration::from_secs(50),
            silence: Duration::from_secs(100),
            watch: Duration::from_secs(240),
        }
    }
}

impl Client {
    pub(super) fn read_text(&self, request: &ApiRequest<'_>) -> Result<(u16, String)> {
        let answer = self.answer(request)?;
        let (code, is_success) = (answer.status().as_u16(), answer.status().is_success());
        let body = read_body(answer, MAX_TEXT).map_err(|e| self.lost(request, &e))?;
        if is_success {
            self.mark_heard();
        }
        Ok((code, String::from_utf8_lossy(&body).into_owned()))
    }

    pub(super) fn object(&self, request: &ApiRequest<'_>) -> Result<Value> {
        let object = self.json(request)?;
        let target = request.target;
        let named = target.name.is_none_or(|name| object["metadata"]["name"] == name);
        let namespace = &object["metadata"]["namespace"];
        let placed = target.namespace.is_none_or(|wanted| namespace == wanted);
        let same = named && placed && object["kind"] == *target.resource.kind;
        // A subresource such as `token` has a kind of its own.
        if same || target.subresource.is_some() && object["kind"].is_string() {
            return Ok(object);
        }
        Err(self.odd(request, "another object than requested"))
    }

    /// Reads the answer to its end, so that the connection can be reused.
    pub(super) fn json(&self, request: &ApiRequest<'_>) -> Result<Value> {
        let body = self.send(request)?.into_body().into_reader();
        let budget = self.budget(request);
        let managed_fields = !self.field_manager.is_empty();
        let document = json::object(&mut json::reader(body, &budget), &budget, managed_fields)
            .map_err(|e| self.unread(request, e, "an object"))?;
        self.mark_heard();
        match document {
            Document::Whole(object) => Ok(object),
            Document::TooLarge(_) => Err(self.too_large(request)),
        }
    }

    /// Sends; an answer without success is an error.
    pub(crate) fn send(&self, request: &ApiRequest<'_>) -> Result<Response<Body>> {
        let answer = self.answer(request)?;
        if answer.status().is_success() { Ok(answer) } else { Err(self.refusal(request, answer)) }
    }

    /// Sends, and once more after a 401 if the credentials have changed.
    fn answer(&self, request: &ApiRequest<'_>) -> Result<Response<Body>> {
        let (answer, generation) = self.attempt(request)?;
        if answer.status() == 401 && self.other_identity(generation) {
            return Ok(self.attempt(request)?.0);
        }
        Ok(answer)
    }

    /// Sends, and once more after a lost connection where that is safe. Also returns the number of the identity.
    fn attempt(&self, request: &ApiRequest<'_>) -> Result<(Response<Body>, u64)> {
        self.reload_files();
        let mut lost = false;
        loop {
            let (agent, message, generation) = {
                let state = self.state();
                let transport = &state.transport;
                let message = transport.request(request, self.impersonated.as_deref())?;
                (transport.agent.clone(), message, state.generation)
            };
            let start = Instant::now();
            let message = self.timed(&agent, message, request);
            match agent.run(message) {
                Err(e) if request.repeatable && !lost && connection_lost(&e) => lost = true,
                Err(e) => {
                    self.inner.requests.add(request.method.as_str(), None, start.elapsed());
                    return Err(self.lost(request, &e));
                }
                Ok(answer) => {
                    let code = answer.status().as_u16();
                    self.inner.requests.add(request.method.as_str(), Some(code), start.elapsed());
                    // JSON comes from the API server, not from a load balancer.
                    let media = header(&answer, &CONTENT_TYPE).unwrap_or_default();
                    if answer.status().is_success() && media.starts_with("application/json") {
                        self.record(code, header(&answer, &DATE));
                    }
                    return Ok((answer, generation));
                }
            }
        }
    }

    /// Sets the time limits. A page may take as long as its consumer or a slow link, and a watch has no end: their
    /// headers, and each read of a page, have the time of a request. A watch also wakes up at each [`CHECK_INTERVAL`].
    fn timed(
        &self,
        agent: &Agent,
        message: Request<Vec<u8>>,
        request: &ApiRequest<'_>,
    ) -> Request<Vec<u8>> {
        let usual = self.inner.timeouts.request;
        let (total, read) = match request.kind {
            ResponseKind::Watch => (None, Some(self.timeouts().silence.min(CHECK_INTERVAL))),
            ResponseKind::List => {
                (Some(self.timeout.unwrap_or(LIST_TIMEOUT).max(usual)), Some(usual))
            }
            _ => (Some(self.timeout.unwrap_or(usual)), None),
        };
        agent
            .configure_request(message)
            .timeout_global(total)
            .timeout_recv_response(read.map(|_| usual))
            .timeout_per_read(read)
            .build()
    }

    /// Returns whether the identity `refused` has been replaced, after a reload if necessary.
    fn other_identity(&self, refused: u64) -> bool {
        if self.state().generation == refused
            && let Reload::WhenRefused(load) | Reload::FromFiles(load) = &self.inner.reload
            && let Err(e) = self.load_credentials(load)
        {
            log::debug!(server = self.name(), error:% = e; "credentials cannot be reloaded");
        }
        self.state().generation != refused
    }

    fn load_credentials(&self, load: &Load) -> Result<bool> {
        let result = load().and_then(|config| self.swap(config));
        self.inner.requests.add_reload(result.is_ok());
        result
    }

    fn reload_files(&self) {
        let Reload::FromFiles(load) = &self.inner.reload else {
            return;
        };
        {
            let mut state = self.state();
            if Instant::now() < state.next_reload {
                return;
            }
            state.next_reload = Instant::now() + self.inner.timeouts.files;
        }
        if let Err(e) = self.load_credentials(load) {
            log::warn!(server = self.name(), error:% = e; "keeping the current credentials");
        }
    }

    /// Records from an answer of the API server whether it refuses this identity, and its clock.
    fn record(&self, code: u16, date: Option<String>) {
        let (mut state, last) = (self.state(), Instant::now());
        let since = state.refused.map_or(last, |refused| refused.since);
        state.refused = (code == 401).then_some(Refused { since, last });
        let date = date.and_then(|date| httpdate::parse_http_date(&date).ok());
        let Some(time) = date else { return };
        let ahead = time::skew(time, SystemTime::now());
        let before = state.clock.replace(ServerClock { ahead, time, last });
        if ahead.abs() > MAX_SKEW && before.is_none_or(|clock| clock.ahead.abs() <= MAX_SKEW) {
            log::warn!(server = self.name(), skew = ahead; "the server's clock differs from ours");
        }
    }

    pub(crate) fn mark_heard(&self) {
        self.state().heard = Some(Instant::now());
    }

    fn refusal(&self, request: &ApiRequest<'_>, answer: Response<Body>) -> Error {
        let code = answer.status().as_u16();
        let [retry_after, date] = [RETRY_AFTER, DATE].map(|name| header(&answer, &name));
        // To its end, so that the connection can be reused.
        let body = match read_body(answer, status::MAX_BODY) {
            Ok(body) => body,
            Err(e) => return self.lost(request, &e),
        };
        let status = status::parse(&body);
        if !status.is_null() {
            self.record(code, date);
        }
        status::error(&status, &self.describe(request), request, code, retry_after.as_deref())
    }

    /// Returns the error for a missing or invalid answer, with the address of the server.
    pub(crate) fn lost(&self, request: &ApiRequest<'_>, error: &ureq::Error) -> Error {
        match error {
            ureq::Error::Protocol(_)
            | ureq::Error::BodyExceedsLimit(_)
            | ureq::Error::LargeResponseHeader(..) => self.odd(request, &error.to_string()),
            _ => self.unreachable(request, &reason(error)),
        }
    }

    /// The error for an answer that could not be read as `wanted`.
    pub(crate) fn unread(
        &self,
        request: &ApiRequest<'_>,
        error: serde_json::Error,
        wanted: &str,
    ) -> Error {
        match error.classify() {
            Category::Eof => return self.odd(request, "cut short"),
            Category::Data | Category::Syntax => {
                return self.odd(request, &format!("not {wanted}"));
            }
            Category::Io => {}
        }
        let error = io::Error::from(error);
        match error.kind() {
            io::ErrorKind::FileTooLarge => self.odd(request, &error.to_string()),
            _ => self.lost(request, &error.into()),
        }
    }

    pub(crate) fn unreachable(&self, request: &ApiRequest<'_>, why: &str) -> Error {
        let address = self.state().transport.address.clone();
        Error::Unreachable(format!("{} ({address}): {why}", self.describe(request)))
    }

    pub(crate) fn odd(&self, request: &ApiRequest<'_>, what: &str) -> Error {
        let address = self.state().transport.address.clone();
        Error::BadPeer(format!("{} ({address}): the answer is {what}", self.describe(request)))
    }

    pub(crate) fn too_large(&self, request: &ApiRequest<'_>) -> Error {
        let most = request.budget(self.largest) >> 10;
        Error::TooLarge(format!(
            "{}: it needs more than {most} KiB of memory",
            self.describe(request)
        ))
    }

    pub(crate) fn describe(&self, request: &ApiRequest<'_>) -> String {
        match request.kind {
            ResponseKind::Text(path) => format!("get {path} on {}", self.name()),
            _ => format!("{} {} on {}", request.verb(), request.target, self.name()),
        }
    }
}

fn header(answer: &Response<Body>, name: &HeaderName) -> Option<String> {
    answer.headers().get(name)?.to_str().ok().map(str::to_owned)
}
