//! `APIGroup NUL APIResourceList`: a server's answers to the two discovery requests for a kind, through a
//! real connection, for widgets of a group without a given version.
//!
//! A discovered kind can be requested. There are no more requests than the group has versions. Anything else
//! is a one-line error.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

fuzz::modules! {
    discovery = "../../../../bins/remote-sync/src/model/discovery.rs",
}

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use fuzz::{HUGE, answer, assert_one_line, bounded, client_with, expand, memory_bound, parts};
use shared::{client::USUAL_OBJECT, error::Error, resource::valid_label};

use crate::discovery::{ResourceArg, resolve};

/// A connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;
const REQUEST_COST: usize = 1 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let text = expand(data, HUGE);
    let [group, kinds] = parts(&text).map(|part| answer("200 OK", part.unwrap_or_default()));
    let (requests, length) = (Arc::new(AtomicUsize::new(0)), text.len());
    let count = requests.clone();
    let versions = group.windows(9).filter(|part| part == b"\"version\"").count();
    let client = client_with(move |request| {
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
    let wanted = ResourceArg::parse("widgets.example.com").expect("a valid resource");
    // The two answers, each perhaps requested twice; a partial text, with room to grow; the document; the
    // names of versions.
    let limit = 6 * length + memory_bound(USUAL_OBJECT, length) + OVERHEAD;
    // A request takes as long as many bytes do.
    match bounded(length + versions * REQUEST_COST, limit, || resolve(client, &wanted)) {
        Ok(kind) => {
            let resource = &kind.resource;
            assert_eq!((&*resource.group, &*resource.plural), ("example.com", "widgets"));
            assert!(valid_label(&resource.version) && !resource.kind.is_empty());
        }
        Err(error) => {
            assert_one_line(error.message(), 2000);
            assert!(!matches!(error, Error::NotFound(_)), "{error}");
        }
    }
    // With escapes a key may be spelled differently.
    if !data.contains(&b'\\') {
        let most = 2 * (1 + versions);
        assert!(requests.load(Relaxed) <= most, "more than {most} requests");
    }
}
