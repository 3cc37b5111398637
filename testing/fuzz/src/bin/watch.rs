//! A server's answer to a watch, over a real connection: `=` and the stream, or the whole answer with its head.
//!
//! The watcher reports one list, then at most one event per line, all about the requested object. A Lease stays within
//! its memory budget.

#![cfg_attr(fuzzing, no_main)]

use std::ops::ControlFlow;

use apiclient::{
    resource::LEASES,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use fuzz::{answer, bounded, client_with, close_delimited, expand, memory_bound};

const LIST: &[u8] = br#"{"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[]}"#;
/// The longest answer: longer than the longest event.
const LONGEST: usize = 5 << 20;
/// The memory budget of a Lease.
const BUDGET: usize = 64 << 10;
/// For a connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let stream = match data {
        [b'=', rest @ ..] => close_delimited("200 OK", &expand(rest, LONGEST)),
        _ => expand(data, LONGEST),
    };
    let (length, lines) = (stream.len(), stream.split(|byte| *byte == b'\n').count());
    let stop = Stop::default();
    let raised = stop.clone();
    let client = client_with(move |line| {
        if !line.contains("watch=true") {
            return answer("200 OK", LIST);
        }
        // The client reads a watch to the end before it checks `stop`.
        raised.raise();
        stream.clone()
    });
    let (mut lists, mut events) = (0, 0);
    // The answer; a partial text, with room to grow; the object, at most at the cost of the worst shape of that length.
    let limit = 3 * length + memory_bound(BUDGET, length) + OVERHEAD;
    bounded(length, limit, || {
        let target = LEASES.object("ns", "x");
        Watcher::default().run(client, &Selection::all(target), &stop, &mut |event| {
            match event {
                Event::InitDone => lists += 1,
                Event::Apply(object) | Event::Delete(object) => {
                    events += 1;
                    assert_eq!(object.name(), "x", "about another object");
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
    });
    assert!(lists == 1 && events <= lines, "{lists} lists, {events} events of {lines} lines");
}
