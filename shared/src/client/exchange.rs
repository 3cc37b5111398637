//! How a request gets its answer: sent again where that is safe, counted, and read as what it has to be.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;
use ureq::{
    Agent, Body,
    http::{self, Request, Response},
};

use crate::{
    call::{Call, Kind, OBJECT_LIMIT, connection_lost, read_body, reason},
    error::{Error, Result},
    json,
    lock::lock,
    status, time,
};

use super::{Client, Load, Reload};

/// After files that could not be used (half of a rotated pair, say).
const FILES_AGAIN: Duration = Duration::from_secs(1);
/// A clock that is off by more seconds is worth a line in the log, and by less it is right again.
const SKEW_WORTH_TELLING: i64 = 10;
const SKEW_OVER: i64 = 5;

impl Client {
    /// Also after a 401 with the credentials as they are now, where there are others.
    pub(super) fn read_text(&self, call: &Call<'_>) -> Result<(u16, String)> {
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

    pub(super) fn object(&self, call: &Call<'_>) -> Result<Value> {
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

    pub(super) fn json(&self, call: &Call<'_>) -> Result<Value> {
        let body = read_body(self.send(call)?, call.limit()).map_err(|e| self.lost(call, &e))?;
        self.hears();
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
            let answer = match (call.kind, call.timeout) {
                (Kind::Watch, _) => agent.run(self.endless(&agent, request)),
                (_, Some(_)) => {
                    let config = agent.configure_request(request).timeout_global(call.timeout);
                    agent.run(config.build())
                }
                _ => agent.run(request),
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

    pub(crate) fn hears(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.fetch_max(now.max(1), Relaxed);
    }

    fn refusal(&self, call: &Call<'_>, answer: Response<Body>) -> Error {
        let code = answer.status().as_u16();
        let header = answer.headers().get(http::header::RETRY_AFTER);
        let retry_after = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
        // Read to its end, so that the connection can be kept.
        match read_body(answer, OBJECT_LIMIT) {
            Ok(body) => {
                let (what, after) = (self.what(call), retry_after.as_deref());
                status::error(&what, &call.target, code, after, call.is_json_patch(), &body)
            }
            Err(e) => self.lost(call, &e),
        }
    }

    pub(crate) fn lost(&self, call: &Call<'_>, error: &ureq::Error) -> Error {
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
}
