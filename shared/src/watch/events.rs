//! The events of one watch request.

use std::io::{self, BufRead, BufReader, Read};

use serde_json::Value;
use ureq::BodyReader;

use crate::{
    call::{Call, OBJECT_LIMIT},
    client::Client,
    error::{Error, Result},
    json, status,
};

pub(super) struct Events<'a> {
    client: &'a Client,
    call: Call<'a>,
    lines: BufReader<BodyReader<'static>>,
}

impl<'a> Events<'a> {
    pub(super) fn open(client: &'a Client, call: Call<'a>) -> Result<Self> {
        let answer = client.send(&call)?;
        // Small: ureq has a buffer of its own beneath.
        let lines = BufReader::with_capacity(1 << 10, answer.into_body().into_reader());
        Ok(Self { client, call, lines })
    }

    /// The next event; `None` when the server ended the watch between two.
    pub(super) fn next(&mut self) -> Result<Option<(String, Value)>> {
        let mut line = Vec::new();
        // An event is an object and a few bytes around it.
        let limit = OBJECT_LIMIT + 1024;
        let read = self.lines.by_ref().take(limit).read_until(b'\n', &mut line);
        read.map_err(|e| self.lost(&silence(&e)))?;
        if line.is_empty() {
            return Ok(None);
        }
        self.client.hears();
        let mut event = json::parse(&line)
            .map_err(|what| Error::BadPeer(format!("{}: an event is {what}", self.what())))?;
        // Not by `event["object"]`, which panics where the event is no map.
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        match event["type"].as_str() {
            Some("ERROR") => Err(status::watch_error(&self.what(), &self.call.target, &object)),
            Some(kind @ ("ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK")) => {
                Ok(Some((kind.to_owned(), object)))
            }
            _ => Err(Error::BadPeer(format!("{}: an event is of no known type", self.what()))),
        }
    }

    pub(super) fn lost(&self, why: &str) -> Error {
        Error::Unreachable(format!("{}: {why}", self.what()))
    }

    fn what(&self) -> String {
        self.client.what(&self.call)
    }
}

fn silence(error: &io::Error) -> String {
    // ureq hides its time-out in an I/O error of kind Other.
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<ureq::Error>());
    match inner {
        Some(ureq::Error::Timeout(_)) => "silent for too long".to_owned(),
        _ => error.to_string(),
    }
}
