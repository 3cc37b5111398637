//! A JSONPath of a ManifestWork and the object that it applies to, in JSON, separated by a NUL byte.
//!
//! An error changes nothing. A removal changes the object only where the path finds values; afterwards the path finds
//! none.

#![cfg_attr(fuzzing, no_main)]

use apiclient::{client::USUAL_OBJECT, json};
use fuzz::{HUGE, assert_one_line, bounded, expand, parts};
use klusterlet_agent::JsonPath;

/// For the parsed path, references to the found values, and the lists of an intermediate step.
const OVERHEAD: usize = 16 << 20;

fuzz::target!(run);

fn run(data: &[u8]) {
    let [Some(path), Some(object)] = parts::<2>(data) else { return };
    let Ok(path) = String::from_utf8(expand(path, 8192)) else { return };
    let text = expand(object, HUGE);
    let Some(mut object) = json::parse(&text, USUAL_OBJECT) else { return };
    let length = path.len() + text.len();
    let parsed = match bounded(length, OVERHEAD, || JsonPath::parse(&path)) {
        Ok(parsed) => parsed,
        Err(error) => return assert_one_line(&error.escape_debug().to_string(), 6 * 8192),
    };
    let before = object.clone();
    let found = bounded(length, OVERHEAD, || parsed.find(&before, &mut 0).map(|found| found.len()));
    let removed = bounded(length, OVERHEAD, || parsed.remove(&mut object, &mut 0));
    if removed.is_err() || found.is_err() {
        assert_eq!(object, before, "an error changes nothing");
    } else if object != before {
        assert!(found.is_ok_and(|found| found > 0), "nothing was there");
        assert!(
            parsed.find(&object, &mut 0).is_ok_and(|found| found.is_empty()),
            "it is still there"
        );
    }
}
