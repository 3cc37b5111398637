//! A whole answer to a GET, through a real connection: `L` for a Lease, `S` for a Secret, `V` for a text such as
//! `/version`, and then head and body as they are; in place of the head `=` is a good one, and `%` and a byte
//! one whose body comes in pieces of so many bytes.
//!
//! An object that is told is the one that was asked for, and costs what it may; anything else is one line.

#![cfg_attr(fuzzing, no_main)]

use std::time::Duration;

use fuzz::{asked, bare, bounded, charged, chunked, expanded, sentence};
use shared::{
    client::{Client, USUAL_OBJECT},
    error::Error,
    json,
    resource::{LEASES, SECRETS, Target},
};

/// All of an answer: more than an object may have.
const LONGEST: usize = 5 << 20;
const LEASE: usize = 128 << 10;
/// What a text may have.
const TEXT: usize = 1 << 20;
/// A connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let (what, rest) = data.split_first().unwrap_or((&b'L', &[]));
    let answer = match rest {
        [b'=', body @ ..] => bare("200 OK", &expanded(body, LONGEST)),
        [b'%', size, body @ ..] => chunked("200 OK", &expanded(body, LONGEST), (*size).into()),
        whole => expanded(whole, LONGEST),
    };
    let length = answer.len();
    let client = asked(move |_| answer.clone());
    match what {
        b'S' => object(client, length, &SECRETS.object("ns", "x"), USUAL_OBJECT),
        b'V' => text(client, length),
        _ => object(client, length, &LEASES.object("ns", "x"), LEASE),
    }
    if let Some(clock) = client.clock() {
        assert!(clock.since <= clock.last);
    }
}

fn object(client: &Client, length: usize, target: &Target<'_>, budget: usize) {
    // The answer itself, which may be asked for once more; a text that is not whole yet, with room to grow; the
    // object.
    let limit = 4 * length + charged(budget, length) + OVERHEAD;
    match bounded(length, limit, || client.get(target)) {
        Ok(object) => {
            assert!(json::cost(&object) <= budget);
            let (metadata, kind) = (&object["metadata"], &*target.resource.kind);
            assert_eq!((&object["kind"], &metadata["name"]), (&kind.into(), &"x".into()));
            assert_eq!(metadata["namespace"], "ns");
            assert!(metadata.get("managedFields").is_none());
        }
        Err(error) => told(&error),
    }
}

fn text(client: &Client, length: usize) {
    let limit = 2 * length + 4 * length.min(TEXT) + OVERHEAD;
    match bounded(length, limit, || client.text("/version")) {
        // What is no UTF-8 takes three bytes for one.
        Ok((code, text)) => assert!((100..1000).contains(&code) && text.len() <= 3 * TEXT),
        Err(error) => told(&error),
    }
}

fn told(error: &Error) {
    sentence(error.message(), 2000);
    assert!(error.message().starts_with("get "), "{error}");
    assert!(error.retry_after().is_none_or(|wait| wait <= Duration::from_secs(600)));
}
