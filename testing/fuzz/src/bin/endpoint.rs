//! What a client sends to a program's own endpoint, over a real connection; a line feed after FE begins
//! another write.
//!
//! It is answered as HTTP or not at all, with a body as long as it says; it costs the same whatever its length
//! is; and who asks for /healthz afterwards is answered.

#![cfg_attr(fuzzing, no_main)]

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::OnceLock,
    time::Duration,
};

use fuzz::{HUGE, bounded, expanded};
use shared::{
    diagnostics::{self, Report},
    flags::{self, Invocation},
    stop::Stop,
};

/// The longest request, one that is read, and the answer; whatever is sent.
const MEMORY: usize = 64 << 10;
const METRICS: &str = "up 1\n";

fuzz::target!(run);

struct Told;

impl Report for Told {
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
    let bytes = expanded(data, HUGE);
    let writes: Vec<_> = bytes.split(|byte| *byte == 0xfe).collect();
    let (answer, health) = bounded(bytes.len(), MEMORY, || {
        (asked(&writes), asked(&[b"GET /healthz HTTP/1.1\r\n\r\n"]))
    });
    judged(&answer);
    assert!(health.starts_with(b"HTTP/1.1 200 OK\r\n") && health.ends_with(b"\r\n\r\nok\n"));
}

/// What comes back until the connection ends.
fn asked(writes: &[&[u8]]) -> Vec<u8> {
    static PORT: OnceLock<u16> = OnceLock::new();
    let port = *PORT.get_or_init(served);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("an endpoint");
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).and_then(|()| stream.set_nodelay(true)).expect("a socket");
    // Who has heard enough closes the connection.
    let sent = writes.iter().try_for_each(|bytes| stream.write_all(bytes));
    drop(sent.and_then(|()| stream.shutdown(Shutdown::Write)));
    let mut answer = Vec::with_capacity(4 << 10);
    drop(stream.read_to_end(&mut answer));
    answer
}

fn served() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = free.expect("a port").port();
    let arguments =
        ["-metrics-host=127.0.0.1".to_owned(), format!("-metrics-port={port}")].map(Into::into);
    let Ok(Invocation::Run(flags)) = flags::parse("fuzz", &flags::common("0"), arguments) else {
        panic!("good flags");
    };
    diagnostics::serve(&flags, &Stop::default(), Told).expect("an endpoint");
    port
}

fn judged(answer: &[u8]) {
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
    // The answer to a HEAD has none.
    assert!(body.is_empty() || expected.contains(&body), "{answer}");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
    assert!(body.is_empty() || body.len() == length, "{answer}");
}
