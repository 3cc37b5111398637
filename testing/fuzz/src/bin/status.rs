//! `CODE RETRY-AFTER`, then on the next line the body of an answer that is not a success, through a real
//! connection; the same body is then an event of a watch.
//!
//! One bounded line; no wait over ten minutes; an absence only if the body names the object; and whatever the
//! shape, no more memory than a Status may cost.

#![cfg_attr(fuzzing, no_main)]

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use fuzz::{answer, asked, bare, bounded, charged, expanded, sentence};
use serde::de::IgnoredAny;
use serde_json::Value;
use shared::{
    error::Error,
    resource::LEASES,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};

const LIST: &[u8] = br#"{"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[]}"#;
const LONGEST: usize = 3 << 20;
/// What of a body is read, and what a Status of it may cost.
const STATUS: usize = 512 << 10;
/// What a Lease may cost, and so the object of an event.
const LEASE: usize = 128 << 10;
/// A connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let body = expanded(lines.next().unwrap_or_default(), LONGEST);
    let (code, after) = first.split_once(' ').map_or((&*first, None), |(c, a)| (c, Some(a)));
    let code = code.parse().ok().filter(|code| (300..=599).contains(code)).unwrap_or(500);
    answered(code, after, &body);
    watched(&body);
}

fn answered(code: u16, after: Option<&str>, body: &[u8]) {
    // A line of a head is a line; what else it may be is the matter of `head`.
    let after = after.filter(|after| after.bytes().all(|byte| byte.is_ascii_graphic()));
    let header = after.map_or(String::new(), |after| format!("\r\nRetry-After: {after}"));
    let (status, length) = (format!("{code} X{header}"), body.len());
    let sent = answer(&status, body);
    let client = asked(move |_| sent.clone());
    // The answer; its body as far as it is read, with room to grow; a text of it; the Status.
    let limit = length + 3 * length.min(STATUS) + charged(STATUS, length) + OVERHEAD;
    let target = LEASES.object("ns", "x");
    let error = bounded(length, limit, || client.get(&target)).expect_err("no success");
    judged(&error);
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    match &error {
        // An absence makes others delete: it has to be said in so many words.
        Error::NotFound(_) => {
            assert_eq!((code, &status["kind"]), (404, &"Status".into()));
            let details = &status["details"];
            assert_eq!((&details["name"], &details["kind"]), (&"x".into(), &"leases".into()));
        }
        Error::Unauthorized(_) => assert_eq!(code, 401),
        Error::Gone(_) => assert!(matches!(code, 410 | 504)),
        Error::Conflict(_) | Error::AlreadyExists(_) => assert_eq!(code, 409),
        _ => {}
    }
}

/// The body as what went wrong with a watch.
fn watched(body: &[u8]) {
    let event = [br#"{"type":"ERROR","object":"#, body, b"}\n"].concat();
    let (length, requests) = (event.len(), AtomicUsize::new(0));
    let stop = Stop::default();
    let raised = stop.clone();
    let client = asked(move |request| {
        if !request.line.contains("watch=true") {
            return answer("200 OK", LIST);
        }
        // What closes the event itself may go on with one that is no error.
        if requests.fetch_add(1, Relaxed) > 0 {
            raised.raise();
        }
        bare("200 OK", &event)
    });
    let (mut failed, limit) = (false, 4 * length + charged(LEASE, length) + OVERHEAD);
    bounded(length, limit, || {
        let selection = Selection::all(LEASES.object("ns", "x"));
        Watcher::default().run(client, &selection, &stop, &mut |step| match step {
            Event::Failed(error) => {
                judged(error);
                failed = true;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
    });
    // A long one may take so long that it counts as the end of a watch.
    let whole = body.len() <= LEASE && serde_json::from_slice::<IgnoredAny>(body).is_ok();
    assert!(failed || !whole, "an error was lost");
}

fn judged(error: &Error) {
    // 500 characters of the server's own.
    sentence(error.message(), 2000 + 100);
    assert!(["get ", "watch "].iter().any(|verb| error.message().starts_with(verb)), "{error}");
    assert!(error.retry_after().is_none_or(|wait| wait <= Duration::from_secs(600)));
}
