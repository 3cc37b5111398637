//! `CODE RETRY-AFTER`, then on the next line the body of an unsuccessful answer, through a real connection;
//! then the same body as an event of a watch.
//!
//! An error is one bounded line, with no wait over ten minutes. It is `NotFound` only if the body names the
//! object. Whatever the shape, it stays within the memory budget of a Status.

#![cfg_attr(fuzzing, no_main)]

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use fuzz::{answer, assert_one_line, bounded, client_with, close_delimited, expand, memory_bound};
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
/// The bytes of a body that are read, and the memory budget of its Status.
const STATUS: usize = 512 << 10;
/// The memory budget of a Lease, and so of the object of an event.
const LEASE: usize = 128 << 10;
/// A connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let body = expand(lines.next().unwrap_or_default(), LONGEST);
    let (code, after) = first.split_once(' ').map_or((&*first, None), |(c, a)| (c, Some(a)));
    let code = code.parse().ok().filter(|code| (300..=599).contains(code)).unwrap_or(500);
    check_answer(code, after, &body);
    check_watch_error(&body);
}

fn check_answer(code: u16, after: Option<&str>, body: &[u8]) {
    // Only a header that fits on one line; the target `head` covers the rest.
    let after = after.filter(|after| after.bytes().all(|byte| byte.is_ascii_graphic()));
    let header = after.map_or(String::new(), |after| format!("\r\nRetry-After: {after}"));
    let (status, length) = (format!("{code} X{header}"), body.len());
    let sent = answer(&status, body);
    let client = client_with(move |_| sent.clone());
    // The answer; the part of its body that is read, with room to grow; a text of it; the Status.
    let limit = length + 3 * length.min(STATUS) + memory_bound(STATUS, length) + OVERHEAD;
    let target = LEASES.object("ns", "x");
    let error = bounded(length, limit, || client.get(&target)).expect_err("an unsuccessful answer");
    check_error(&error);
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    match &error {
        // NotFound makes callers delete objects: the server must have said so explicitly.
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

/// Checks the body as the error of a watch.
fn check_watch_error(body: &[u8]) {
    let event = [br#"{"type":"ERROR","object":"#, body, b"}\n"].concat();
    let (length, requests) = (event.len(), AtomicUsize::new(0));
    let stop = Stop::default();
    let raised = stop.clone();
    let client = client_with(move |request| {
        if !request.line.contains("watch=true") {
            return answer("200 OK", LIST);
        }
        // A body that closes the event itself may continue with one that is not an error.
        if requests.fetch_add(1, Relaxed) > 0 {
            raised.raise();
        }
        close_delimited("200 OK", &event)
    });
    let (mut failed, limit) = (false, 4 * length + memory_bound(LEASE, length) + OVERHEAD);
    bounded(length, limit, || {
        let selection = Selection::all(LEASES.object("ns", "x"));
        Watcher::default().run(client, &selection, &stop, &mut |step| match step {
            Event::Failed(error) => {
                check_error(error);
                failed = true;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
    });
    // A long body may take so long that it counts as the end of a watch.
    let whole = body.len() <= LEASE && serde_json::from_slice::<IgnoredAny>(body).is_ok();
    assert!(failed || !whole, "an error was lost");
}

fn check_error(error: &Error) {
    // 500 characters are the server's own.
    assert_one_line(error.message(), 2000 + 100);
    assert!(["get ", "watch "].iter().any(|verb| error.message().starts_with(verb)), "{error}");
    assert!(error.retry_after().is_none_or(|wait| wait <= Duration::from_secs(600)));
}
