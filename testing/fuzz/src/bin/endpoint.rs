//! Bytes that a client sends to a program's own endpoint, over a real connection; FE separates two writes.
//!
//! The endpoint answers in HTTP or not at all, with a body of the announced length. The cost does not depend
//! on the length of the request. The endpoint answers a request for /healthz afterwards.

#![cfg_attr(fuzzing, no_main)]

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::OnceLock,
    time::Duration,
};

use fuzz::{HUGE, bounded, expand};
use shared::{
    diagnostics::{self, Report},
    flags::{self, Invocation},
    stop::Stop,
};

/// Memory for the longest request that is read and for the answer, whatever is sent.
const MEMORY: usize = 64 << 10;
const METRICS: &str = "up 1\n";

fuzz::target!(run);

struct FixedReport;

impl Report for FixedReport {
    fn healthy(&self) -> Result<(), String> {
        Ok(())
    }
    fn ready(&self) -> Result<(), String> {
        Err("not yet".to_owned())
    }
    fn metrics(&self) -> String {
        METRICS.to_owned()
    }
    fn state(&self) -> Option<String> {
        Some("{}".to_owned())
    }
}

fn run(data: &[u8]) {
    let bytes = expand(data, HUGE);
    let writes: Vec<_> = bytes.split(|byte| *byte == 0xfe).collect();
    let (answer, health) = bounded(bytes.len(), MEMORY, || {
        (exchange(&writes), exchange(&[b"GET /healthz HTTP/1.1\r\n\r\n"]))
    });
    check_answer(&answer);
    assert!(health.starts_with(b"HTTP/1.1 200 OK\r\n") && health.ends_with(b"\r\n\r\nok\n"));
}

/// Sends the writes; returns everything received until the connection ends.
fn exchange(writes: &[&[u8]]) -> Vec<u8> {
    static PORT: OnceLock<u16> = OnceLock::new();
    let port = *PORT.get_or_init(start_endpoint);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("an endpoint");
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).and_then(|()| stream.set_nodelay(true)).expect("a socket");
    // An endpoint that has read enough closes the connection.
    let sent = writes.iter().try_for_each(|bytes| stream.write_all(bytes));
    drop(sent.and_then(|()| stream.shutdown(Shutdown::Write)));
    let mut answer = Vec::with_capacity(4 << 10);
    drop(stream.read_to_end(&mut answer));
    answer
}

fn start_endpoint() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = free.expect("a port").port();
    let arguments =
        ["-metrics-host=127.0.0.1".to_owned(), format!("-metrics-port={port}")].map(Into::into);
    let Ok(Invocation::Run(flags)) = flags::parse("fuzz", &flags::common("0"), arguments) else {
        panic!("good flags");
    };
    diagnostics::serve(&flags, &Stop::default(), FixedReport).expect("an endpoint");
    port
}

fn check_answer(answer: &[u8]) {
    if answer.is_empty() {
        return;
    }
    let answer = str::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let code = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let expected: &[&str] = match code {
        Some("200") => &["ok\n", METRICS, "{}"],
        Some("404") => &["not found\n"],
        Some("405") => &["only GET\n"],
        Some("503") => &["not yet\n"],
        _ => panic!("{head}"),
    };
    // The answer to a HEAD request has no body.
    assert!(body.is_empty() || expected.contains(&body), "{answer}");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
    assert!(body.is_empty() || body.len() == length, "{answer}");
}
