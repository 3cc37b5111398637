//! `APIGroup NUL APIResourceList`: what a server answers to the two questions for a kind, through a real
//! connection, for widgets of a group whose version nobody named.
//!
//! A kind that is found can be asked for; no more is asked than the group has versions; anything else is one
//! line.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

fuzz::modules! {
    discovery = "../../../../bins/remote-sync/src/model/discovery.rs",
}

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use fuzz::{HUGE, answer, asked, bounded, charged, expanded, parts, sentence};
use shared::{client::USUAL_OBJECT, error::Error, resource::valid_label};

use crate::discovery::{ResourceArg, resolve};

/// A connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;
const QUESTION: usize = 1 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let text = expanded(data, HUGE);
    let [group, kinds] = parts(&text).map(|part| answer("200 OK", part.unwrap_or_default()));
    let (requests, length) = (Arc::new(AtomicUsize::new(0)), text.len());
    let count = requests.clone();
    let versions = group.windows(9).filter(|part| part == b"\"version\"").count();
    let client = asked(move |request| {
        count.fetch_add(1, Relaxed);
        let asked = request.line.strip_prefix("GET /apis/example.com").unwrap_or_default();
        match asked.split(' ').next().and_then(|path| path.strip_prefix('/')) {
            None => group.clone(),
            Some(version) => {
                assert!(valid_label(version), "{version}");
                kinds.clone()
            }
        }
    });
    let wanted = ResourceArg::parse("widgets.example.com").expect("a kind");
    // The two answers, which may be asked for once more; a text that is not whole yet, with room to grow; the
    // document; the names of versions.
    let limit = 6 * length + charged(USUAL_OBJECT, length) + OVERHEAD;
    // A question takes as long as many bytes do.
    match bounded(length + versions * QUESTION, limit, || resolve(client, &wanted)) {
        Ok(kind) => {
            let resource = &kind.resource;
            assert_eq!((&*resource.group, &*resource.plural), ("example.com", "widgets"));
            assert!(valid_label(&resource.version) && !resource.kind.is_empty());
        }
        Err(error) => {
            sentence(error.message(), 2000);
            assert!(!matches!(error, Error::NotFound(_)), "{error}");
        }
    }
    // A key may be spelled with escapes.
    if !data.contains(&b'\\') {
        let most = 2 * (1 + versions);
        assert!(requests.load(Relaxed) <= most, "more than {most} requests");
    }
}
