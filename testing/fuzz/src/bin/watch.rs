//! What a server answers to a watch, through a real connection: `=` and then the stream, or the whole
//! answer with its head.
//!
//! One list, then at most an event a line, all about the object asked for; a Lease costs what a Lease may.

#![cfg_attr(fuzzing, no_main)]

use std::ops::ControlFlow;

use fuzz::{answer, asked, bare, bounded, charged, expanded};
use shared::{
    resource::LEASES,
    stop::Stop,
    watch::{self, LastError},
};

const LIST: &[u8] = br#"{"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[]}"#;
/// All of an answer: more than one event may have.
const LONGEST: usize = 5 << 20;
/// What a Lease may cost.
const BUDGET: usize = 128 << 10;
/// A connection, its request and its log lines.
const OVERHEAD: usize = 128 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let stream = match data {
        [b'=', rest @ ..] => bare("200 OK", &expanded(rest, LONGEST)),
        _ => expanded(data, LONGEST),
    };
    let (length, lines) = (stream.len(), stream.split(|byte| *byte == b'\n').count());
    let (stop, trouble) = (Stop::default(), LastError::default());
    let raised = stop.clone();
    let client = asked(move |request| {
        if !request.line.contains("watch=true") {
            return answer("200 OK", LIST);
        }
        // The client reads a watch to its end before it looks.
        raised.raise();
        stream.clone()
    });
    let (mut lists, mut events) = (0, 0);
    // The answer itself; a text that is not whole yet, with room to grow; the object, which is no more than
    // the shape of so many bytes can cost.
    let limit = 3 * length + charged(BUDGET, length) + OVERHEAD;
    bounded(length, limit, || {
        let target = LEASES.object("ns", "x");
        watch::follow(client, &target, &stop, &trouble, &mut |lease| {
            if lease.is_none() && lists == 0 {
                lists += 1;
            } else {
                events += 1;
            }
            if let Some(lease) = lease {
                assert_eq!(lease["metadata"]["name"], "x", "about another object");
            }
            ControlFlow::Continue(())
        });
    });
    assert!(lists == 1 && events <= lines, "{lists} lists, {events} events of {lines} lines");
}
