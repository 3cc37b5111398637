//! How a request gets its answer: sent again where that is safe, counted, and read as what it has to be.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant, SystemTime},
};

use serde::de::DeserializeSeed;
use serde_json::Value;
use ureq::{
    Agent, Body,
    http::{self, Request, Response},
};

use crate::{
    client::request::{ApiRequest, ResponseKind, connection_lost, read_body, reason},
    client::status,
    error::{Error, Result},
    json::{Bytes, Document, Object},
    lock::lock,
    memory::{Budget, Refusal},
    time,
};

use super::{Client, Load, Refused, Reload, ServerClock};

/// After files that could not be used (half of a rotated pair, say).
const FILES_AGAIN: Duration = Duration::from_secs(1);
/// A clock that is off by more seconds is worth a line in the log, and by less it is right again.
const SKEW_WORTH_TELLING: i64 = 10;
const SKEW_OVER: i64 = 5;
/// Answers whose clocks differ by no more seconds agree: dates are whole seconds, and answers take time.
const SAME_CLOCK: u64 = 60;
/// A watch looks up this often, to see whether it should have ended; within an event nothing may take longer.
const LOOK_UP: Duration = Duration::from_secs(20);

impl Client {
    /// Also after a 401 with the credentials as they are now, where there are others.
    pub(super) fn read_text(&self, call: &ApiRequest<'_>) -> Result<(u16, String)> {
        let (mut answer, generation) = self.answer(call)?;
        if answer.status() == 401 && self.other_identity(generation) {
            (answer, _) = self.answer(call)?;
        }
        let code = answer.status().as_u16();
        let success = answer.status().is_success();
        let body = read_body(answer, call.limit()).map_err(|e| self.lost(call, &e))?;
        if success {
            self.hears();
        }
        Ok((code, String::from_utf8_lossy(&body).into_owned()))
    }

    pub(super) fn object(&self, call: &ApiRequest<'_>) -> Result<Value> {
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

    /// Reads the answer to its end, so that the connection can be kept.
    pub(super) fn json(&self, call: &ApiRequest<'_>) -> Result<Value> {
        let body = self.send(call)?.into_body().into_with_config().limit(call.limit()).reader();
        let budget = Budget::for_peer(call.budget(self.largest()));
        let mut bytes = Bytes::new(body, &budget);
        let mut json = bytes.json();
        let document = Object(&budget).deserialize(&mut json);
        let document = document.and_then(|document| json.end().map(|()| document));
        let document = document.map_err(|e| self.unread(call, e, "an object"))?;
        self.hears();
        match document {
            Document::Whole(object) => Ok(object),
            Document::TooLarge(_) => Err(self.too_large(call)),
        }
    }

    /// Sends until there is an answer that counts: once more after a 401 with the credentials as they
    /// are now.
    pub(crate) fn send(&self, call: &ApiRequest<'_>) -> Result<Response<Body>> {
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
    fn answer(&self, call: &ApiRequest<'_>) -> Result<(Response<Body>, u64)> {
        self.look_at_files();
        let mut lost = false;
        loop {
            let (agent, request, generation) = {
                let state = self.state();
                (state.link.agent().clone(), state.link.request(call)?, state.generation)
            };
            let start = Instant::now();
            let answer = match (call.kind, call.timeout) {
                (ResponseKind::Watch, _) => agent.run(self.endless(&agent, request)),
                (_, Some(_)) => {
                    let config = agent.configure_request(request).timeout_global(call.timeout);
                    agent.run(config.build())
                }
                _ => agent.run(request),
            };
            match answer {
                Err(e) if call.repeatable && !lost && connection_lost(&e) => lost = true,
                Err(e) => {
                    self.inner.requests.add(call.method.as_str(), None, start.elapsed());
                    return Err(self.lost(call, &e));
                }
                Ok(answer) => {
                    let code = answer.status().as_u16();
                    self.inner.requests.add(call.method.as_str(), Some(code), start.elapsed());
                    if answer.status().is_success() && is_json(&answer) {
                        *lock(&self.inner.refused) = None;
                        self.see_date(date(&answer));
                    }
                    return Ok((answer, generation));
                }
            }
        }
    }

    /// A watch has no last byte to wait for: its head is bounded as ever, then the time until somebody looks
    /// whether it should have ended.
    fn endless(&self, agent: &Agent, request: Request<Vec<u8>>) -> Request<Vec<u8>> {
        agent
            .configure_request(request)
            .timeout_global(None)
            .timeout_recv_response(Some(self.inner.timing.request))
            .timeout_per_read(Some(self.silence().min(LOOK_UP)))
            .build()
    }

    /// After a 401: whether there is another identity than the one that was refused.
    fn other_identity(&self, refused: u64) -> bool {
        if self.state().generation == refused
            && let Reload::WhenRefused(load) | Reload::FromFiles(load) = &self.inner.reload
            && let Err(e) = self.load_again(load)
        {
            log::debug!("{}'s credentials: {e}", self.whose());
        }
        self.state().generation != refused
    }

    fn load_again(&self, load: &Load) -> Result<bool> {
        let result = load().and_then(|access| self.swap(access));
        let mut reloads = lock(&self.inner.reloads);
        if result.is_ok() {
            reloads.0 += 1
        } else {
            reloads.1 += 1
        }
        result
    }

    fn look_at_files(&self) {
        let Reload::FromFiles(load) = &self.inner.reload else {
            return;
        };
        {
            let mut state = self.state();
            if Instant::now() < state.next_look {
                return;
            }
            state.next_look = Instant::now() + self.inner.timing.files;
        }
        let result = self.load_again(load);
        let mut state = self.state();
        let was_unusable = std::mem::replace(&mut state.files_unusable, result.is_err());
        if let Err(e) = result {
            state.next_look = Instant::now() + FILES_AGAIN.min(self.inner.timing.files);
            if !was_unusable {
                log::warn!("{}'s credentials in use stay: {e}", self.whose());
            }
        }
    }

    /// Takes note of the server's clock.
    fn see_date(&self, date: Option<String>) {
        let Some(time) = date.and_then(|date| time::date(&date)) else { return };
        let skew = time::skew(time, SystemTime::now());
        let (mut clock, last) = (lock(&self.inner.clock), Instant::now());
        let before = clock.filter(|clock| clock.ahead.abs_diff(skew) <= SAME_CLOCK);
        let since = before.map_or(last, |before| before.since);
        *clock = Some(ServerClock { ahead: skew, time, since, last });
        drop(clock);
        let told = &self.inner.skew_told;
        if skew.abs() < SKEW_OVER {
            told.store(false, Relaxed);
        } else if skew.abs() > SKEW_WORTH_TELLING && !told.swap(true, Relaxed) {
            let direction = if skew > 0 { "ahead of" } else { "behind" };
            log::warn!("the clock of {} is {} s {direction} ours", self.whose(), skew.abs());
        }
    }

    /// Takes note of whether the server, by its own word, refused this identity.
    fn see_refusal(&self, is_refused: bool) {
        let (mut refused, last) = (lock(&self.inner.refused), Instant::now());
        *refused = is_refused.then(|| match *refused {
            Some(Refused { since, .. }) => Refused { since, last },
            None => Refused { since: last, last },
        });
    }

    pub(crate) fn hears(&self) {
        let now = u64::try_from(self.inner.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.inner.heard.fetch_max(now.max(1), Relaxed);
    }

    fn refusal(&self, call: &ApiRequest<'_>, answer: Response<Body>) -> Error {
        let code = answer.status().as_u16();
        let header = answer.headers().get(http::header::RETRY_AFTER);
        let retry_after = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let date = date(&answer);
        // Read to its end, so that the connection can be kept.
        let body = match read_body(answer, status::LONGEST) {
            Ok(body) => body,
            Err(e) => return self.lost(call, &e),
        };
        let status = status::Status::of(&body);
        if status.is_told() {
            self.see_date(date);
            self.see_refusal(code == 401);
        }
        let (what, after) = (self.what(call), retry_after.as_deref());
        status.error(&what, &call.target, code, after, call.is_json_patch())
    }

    /// No answer, or none that can be understood: with the address, for whoever looks for what is in the way.
    pub(crate) fn lost(&self, call: &ApiRequest<'_>, error: &ureq::Error) -> Error {
        match error {
            ureq::Error::Protocol(_)
            | ureq::Error::BodyExceedsLimit(_)
            | ureq::Error::LargeResponseHeader(..) => self.odd(call, &error.to_string()),
            _ => self.unreachable(call, &reason(error)),
        }
    }

    /// The same for an answer that could not be read as `wanted`.
    pub(crate) fn unread(
        &self,
        call: &ApiRequest<'_>,
        error: serde_json::Error,
        wanted: &str,
    ) -> Error {
        if error.is_eof() {
            return self.odd(call, "cut short");
        }
        if !error.is_io() {
            let what =
                if error.is_data() { format!("not {wanted}") } else { "not JSON".to_owned() };
            return self.odd(call, &what);
        }
        let error = std::io::Error::from(error);
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(refusal @ Refusal::Endless) => self.odd(call, &refusal.to_string()),
            Some(refusal) => self.unreachable(call, &refusal.to_string()),
            None => self.lost(call, &error.into()),
        }
    }

    pub(crate) fn unreachable(&self, call: &ApiRequest<'_>, why: &str) -> Error {
        let way = self.state().link.way().to_owned();
        Error::Unreachable(format!("{} ({way}): {why}", self.what(call)))
    }

    pub(crate) fn odd(&self, call: &ApiRequest<'_>, what: &str) -> Error {
        let way = self.state().link.way().to_owned();
        Error::BadPeer(format!("{} ({way}): the answer is {what}", self.what(call)))
    }

    /// The object costs more memory than it may.
    pub(crate) fn too_large(&self, call: &ApiRequest<'_>) -> Error {
        let most = call.budget(self.largest()) >> 10;
        Error::TooLarge(format!("{}: it needs more than {most} KiB of memory", self.what(call)))
    }

    pub(crate) fn what(&self, call: &ApiRequest<'_>) -> String {
        match call.kind {
            ResponseKind::Text(path) => format!("get {path} on {}", self.whose()),
            _ => format!("{} {} on {}", call.verb(), call.target, self.whose()),
        }
    }
}

fn date(answer: &Response<Body>) -> Option<String> {
    let date = answer.headers().get(http::header::DATE)?;
    date.to_str().ok().map(str::to_owned)
}

/// Whether an answer comes from an API server and not from a balancer before it.
fn is_json(answer: &Response<Body>) -> bool {
    let media = answer.headers().get(http::header::CONTENT_TYPE);
    media
        .and_then(|media| media.to_str().ok())
        .is_some_and(|media| media.starts_with("application/json"))
}
