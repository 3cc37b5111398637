//! A page of a list, over a real connection: `=` and the body, or the whole answer with its head. If it has a continue
//! token, the next page is empty.
//!
//! Objects have a memory limit, pages do not. An incomplete answer, or one that is not a list, is an error after the
//! objects that precede the fault. Otherwise every object is reported, without its managedFields.

#![cfg_attr(fuzzing, no_main)]

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use apiclient::{
    client::USUAL_OBJECT,
    json::{self, Document},
    resource::Resource,
    stop::Stop,
    watch::{self, Selection},
};
use fuzz::{answer, assert_one_line, bounded, client_with, close_delimited, expand, memory_bound};
use serde::de::IgnoredAny;
use serde_json::Value;

const LAST: &[u8] = br#"{"kind":"WidgetList","metadata":{"resourceVersion":"7"},"items":[]}"#;
/// The longest page; it has many objects.
const LONGEST: usize = 8 << 20;
/// The longest object.
const OBJECT: usize = 4 << 20;
/// The longest page whose objects are kept for comparison; together they cost less than one may.
const COMPARED: usize = 8 << 10;
/// For a connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;

static WIDGETS: Resource = Resource::v1("example.com", "widgets", "Widget");

fuzz::target!(run);

fn run(data: &[u8]) {
    let (page, body) = match data {
        [b'=', rest @ ..] => {
            let body = expand(rest, LONGEST);
            (close_delimited("200 OK", &body), Some(body))
        }
        _ => (expand(data, LONGEST), None),
    };
    let (length, requests) = (page.len(), AtomicUsize::new(0));
    let client = client_with(move |_| match requests.fetch_add(1, Relaxed) {
        0 => page.clone(),
        _ => answer("200 OK", LAST),
    });
    let selection = Selection::all(WIDGETS.everywhere());
    let compared = body.filter(|body| body.len() <= COMPARED);
    let mut items = Vec::new();
    // The page; the partial text of an object, with room to grow; the object.
    let limit = length + 2 * length.min(OBJECT) + memory_bound(USUAL_OBJECT, length) + OVERHEAD;
    let ended = bounded(length, limit, || {
        watch::list(client, &selection, &Stop::default(), &mut |item| {
            match &item {
                Document::Whole(object) => assert!(json::cost(object) <= USUAL_OBJECT),
                Document::TooLarge(head) => {
                    let head = head["metadata"].as_object().expect("metadata");
                    for text in head.values().filter_map(Value::as_str) {
                        assert!(text.len() <= 253, "{} bytes of a name", text.len());
                    }
                }
            }
            if let (Document::Whole(object), Some(_)) = (item, &compared) {
                items.push(object);
            }
            ControlFlow::Continue(())
        })
    });
    match (ended, compared) {
        (Err(error), _) => assert_one_line(error.message(), 2000),
        (Ok(()), Some(body)) => assert_same_items(&body, &items),
        (Ok(()), None) => {}
    }
}

/// Checks that the reported objects are the same as in a complete JSON parser's result.
fn assert_same_items(body: &[u8], items: &[Value]) {
    let whole = serde_json::from_slice::<IgnoredAny>(body).is_ok();
    assert!(whole, "a list that is not JSON");
    // A skipped value may be invalid UTF-8, or a number out of range.
    let Ok(list) = serde_json::from_slice::<Value>(body) else { return };
    assert!(list["kind"].as_str().is_some_and(|kind| kind.ends_with("List")), "{list}");
    // The complete parser keeps the last of equal keys, which escapes may disguise.
    if body.windows(5).filter(|part| part == b"items").count() == 1 && !body.contains(&b'\\') {
        let mut all = list["items"].as_array().cloned().unwrap_or_default();
        let metadata =
            |item: &mut Value| item.get_mut("metadata")?.as_object_mut()?.remove("managedFields");
        all.iter_mut().for_each(|item| drop(metadata(item)));
        assert_eq!(all, items);
    }
}
