//! A complete answer to a GET, through a real connection: `L` for a Lease, `S` for a Secret, `V` for a text
//! such as `/version`, then head and body verbatim. In place of the head, `=` stands for a valid one, and `%`
//! and a byte for one whose body comes in chunks of that many bytes.
//!
//! A returned object is the requested one and stays within its budget. Anything else is a one-line error.

#![cfg_attr(fuzzing, no_main)]

use std::time::Duration;

use fuzz::{assert_one_line, bounded, chunked, client_with, close_delimited, expand, memory_bound};
use shared::{
    client::{Client, USUAL_OBJECT},
    error::Error,
    json,
    resource::{LEASES, SECRETS, Target},
};

/// The longest answer: longer than an object may be.
const LONGEST: usize = 5 << 20;
const LEASE: usize = 128 << 10;
/// The longest text.
const TEXT: usize = 1 << 20;
/// A connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let (what, rest) = data.split_first().unwrap_or((&b'L', &[]));
    let answer = match rest {
        [b'=', body @ ..] => close_delimited("200 OK", &expand(body, LONGEST)),
        [b'%', size, body @ ..] => chunked("200 OK", &expand(body, LONGEST), (*size).into()),
        whole => expand(whole, LONGEST),
    };
    let length = answer.len();
    let client = client_with(move |_| answer.clone());
    match what {
        b'S' => check_object(client, length, &SECRETS.object("ns", "x"), USUAL_OBJECT),
        b'V' => check_text(client, length),
        _ => check_object(client, length, &LEASES.object("ns", "x"), LEASE),
    }
    if let Some(clock) = client.clock() {
        assert!(clock.since <= clock.last);
    }
}

fn check_object(client: &Client, length: usize, target: &Target<'_>, budget: usize) {
    // The answer itself, perhaps requested twice; a partial text, with room to grow; the object.
    let limit = 4 * length + memory_bound(budget, length) + OVERHEAD;
    match bounded(length, limit, || client.get(target)) {
        Ok(object) => {
            assert!(json::cost(&object) <= budget);
            let (metadata, kind) = (&object["metadata"], &*target.resource.kind);
            assert_eq!((&object["kind"], &metadata["name"]), (&kind.into(), &"x".into()));
            assert_eq!(metadata["namespace"], "ns");
            assert!(metadata.get("managedFields").is_none());
        }
        Err(error) => check_error(&error),
    }
}

fn check_text(client: &Client, length: usize) {
    let limit = 2 * length + 4 * length.min(TEXT) + OVERHEAD;
    match bounded(length, limit, || client.text("/version")) {
        // Each byte that is not UTF-8 becomes three.
        Ok((code, text)) => assert!((100..1000).contains(&code) && text.len() <= 3 * TEXT),
        Err(error) => check_error(&error),
    }
}

fn check_error(error: &Error) {
    assert_one_line(error.message(), 2000);
    assert!(error.message().starts_with("get "), "{error}");
    assert!(error.retry_after().is_none_or(|wait| wait <= Duration::from_secs(600)));
}
