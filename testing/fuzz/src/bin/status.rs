//! `CODE RETRY-AFTER`, then on the next line the body of an answer that is not a success.

#![no_main]

use std::time::Duration;

use fuzz::{bounded, sentence};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use shared::{error::Error, fuzzing, resource::LEASES};

const WHAT: &str = "update leases ns/x on the hub";

fuzz_target!(|data: &[u8]| {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let body = lines.next().unwrap_or_default();
    let (code, after) = first.split_once(' ').map_or((&*first, None), |(c, a)| (c, Some(a)));
    let code = code.parse().unwrap_or(500);
    let target = LEASES.object("ns", "x");
    // Two bytes can be a value of 32 in a list that exists twice while it grows.
    let limit = 48 * body.len() + (8 << 10);
    let error = bounded(limit, || fuzzing::status(WHAT, &target, code, after, body));
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
    // As an event of a watch.
    judged(&bounded(limit, || fuzzing::watch_error(WHAT, &target, &status)));
});

fn judged(error: &Error) {
    // 500 characters of the server's own.
    sentence(error.message(), 2000 + 100);
    assert!(error.message().starts_with(WHAT));
    assert!(error.retry_after().is_none_or(|wait| wait <= Duration::from_secs(600)));
}
