//! Events of one watch request.

use std::{
    io::{self, BufRead},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    client::{
        Client,
        request::{ApiRequest, reason},
        status,
    },
    error::{Error, Result},
    json::{self, Bytes, Document},
    memory::Budget,
    stop::Stop,
};

pub(super) enum EventType {
    Apply,
    Delete,
    /// No change, only a new resourceVersion.
    Bookmark,
}

pub(super) struct Events<'a, 'b> {
    client: &'a Client,
    request: &'b ApiRequest<'a>,
    body: Bytes<'b>,
    budget: &'b Budget,
    stop: &'a Stop,
    /// The end, even if the server does not end the watch as requested.
    end: Instant,
    last: Instant,
}

impl<'a, 'b> Events<'a, 'b> {
    /// Opens a watch that ends after `longest` at the latest.
    pub(super) fn open(
        client: &'a Client,
        request: &'b ApiRequest<'a>,
        budget: &'b Budget,
        stop: &'a Stop,
        longest: Duration,
    ) -> Result<Self> {
        let bytes = client.send(request)?.into_body().into_reader();
        let body = json::reader(bytes, budget);
        let now = Instant::now();
        Ok(Self { client, request, body, budget, stop, end: now + longest, last: now })
    }

    /// The next event; `None` when the watch ended between two.
    pub(super) fn next(&mut self) -> Result<Option<(EventType, Document)>> {
        if !self.begins()? {
            return Ok(None);
        }
        let (kind, document) = json::event(&mut self.body, self.budget)
            .map_err(|e| self.client.unread(self.request, e, "an event"))?;
        self.last = Instant::now();
        self.client.mark_heard();
        let kind = match (kind.as_str(), &document) {
            (_, Document::Whole(Value::Null)) => None,
            (Some("ADDED" | "MODIFIED"), _) => Some(EventType::Apply),
            (Some("DELETED"), _) => Some(EventType::Delete),
            (Some("BOOKMARK"), _) => Some(EventType::Bookmark),
            (Some("ERROR"), Document::Whole(status)) => {
                let what = self.client.describe(self.request);
                return Err(status::watch_error(&what, self.request, status));
            }
            _ => None,
        };
        let unknown = || self.client.odd(self.request, "an event of no known type");
        Ok(Some((kind.ok_or_else(unknown)?, document)))
    }

    /// Waits for the first byte of an event; returns `false` at the end of the watch. Whitespace does not count.
    fn begins(&mut self) -> Result<bool> {
        self.budget.reset();
        loop {
            let now = Instant::now();
            if now >= self.end || self.stop.raised() {
                return Ok(false);
            }
            if now.saturating_duration_since(self.last) >= self.client.timeouts().silence {
                return Err(self.lost("silent for too long"));
            }
            let (length, blanks) = match self.body.fill_buf() {
                Ok([]) => return Ok(false),
                Ok(bytes) => {
                    let blanks = bytes.iter().take_while(|byte| byte.is_ascii_whitespace());
                    (bytes.len(), blanks.count())
                }
                Err(error) if is_pause(&error) => continue,
                Err(error) => return Err(self.lost(&reason(&error.into()))),
            };
            self.body.consume(blanks);
            if blanks < length {
                return Ok(true);
            }
            self.budget.reset();
        }
    }

    pub(super) fn lost(&self, why: &str) -> Error {
        self.client.unreachable(self.request, why)
    }
}

/// Returns whether the read timed out; ureq wraps its time-out in an I/O error of kind Other.
fn is_pause(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<ureq::Error>());
    matches!(inner, Some(ureq::Error::Timeout(_)))
}
