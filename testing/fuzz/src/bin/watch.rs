//! What a server answers to a watch, through a real connection: `=` and then the stream, or the whole
//! answer with its head. In both, the bytes F8, n, m stand for 16 m bytes more of the last n, or for
//! 2 MiB if m is F9: bytes that no text has, and of which libFuzzer makes no long runs.

#![no_main]

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    ops::ControlFlow,
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::Duration,
};

use fuzz::{bounded, sentence};
use libfuzzer_sys::fuzz_target;
use log::{LevelFilter, Log, Metadata, Record};
use shared::{
    access::{Access, Auth, Trust},
    client::{Client, Reload, Timing},
    lock::lock,
    resource::LEASES,
    stop::Stop,
    watch::{self, Change},
};

const LIST: &str = r#"{"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[]}"#;
/// More than one event may have.
const HUGE: usize = 2 << 20;
/// All of an answer.
const LONGEST: usize = 3 << 20;

/// What the server answers to the next watch, and what it raises by then.
type Run = Arc<(Vec<u8>, Stop)>;
static RUN: Mutex<Option<Run>> = Mutex::new(None);

fuzz_target!(|data: &[u8]| {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let client = CLIENT.get_or_init(client);
    let (answer, stop) = (answer(data), Stop::default());
    let (length, lines) = (answer.len(), answer.split(|byte| *byte == b'\n').count());
    *lock(&RUN) = Some(Arc::new((answer, stop.clone())));
    let (mut lists, mut events) = (0, 0);
    // Two bytes can be a value of 32 in a list that exists twice while it grows.
    bounded((48 * length + (128 << 10)).min(16 << 20), || {
        watch::follow(client, &LEASES.object("ns", "x"), &stop, &mut |change| {
            match change {
                Change::Listed(items) => {
                    assert!(items.is_empty());
                    lists += 1;
                }
                Change::Put(object) | Change::Removed(object) => {
                    assert_eq!(object["metadata"]["name"], "x", "about another object");
                    events += 1;
                }
            }
            ControlFlow::Continue(())
        });
    });
    assert!(lists == 1 && events <= lines, "{lists} lists, {events} events of {lines} lines");
});

fn answer(data: &[u8]) -> Vec<u8> {
    let (mut answer, mut rest) = match data {
        [b'=', rest @ ..] => (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), rest),
        _ => (Vec::new(), data),
    };
    loop {
        match rest {
            [0xf8, n, m, after @ ..] => {
                let from = answer.len().saturating_sub((*n).into());
                let last = answer[from..].to_vec();
                // Few are huge, as those cost a hundred others.
                let more = if *m == 0xf9 { HUGE } else { 16 * usize::from(*m) };
                let room = LONGEST.saturating_sub(answer.len());
                answer.extend(last.repeat(more.min(room) / last.len().max(1)));
                rest = after;
            }
            [byte, after @ ..] => {
                answer.push(*byte);
                rest = after;
            }
            [] => return answer,
        }
    }
}

fn client() -> Client {
    let _ = log::set_logger(&Judge);
    log::set_max_level(LevelFilter::Debug);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // The client may be gone, which is its right.
            let _ = serve(connection);
        }
    });
    let access = Access {
        server: format!("http://127.0.0.1:{port}"),
        trust: Trust::System,
        server_name: None,
        identity: None,
        auth: Auth::None,
        impersonate: Vec::new(),
        proxy: None,
        namespace: None,
    };
    let timing = Timing::with_request(Duration::from_secs(60));
    Client::new("the hub", access, Reload::Never, timing).expect("a client")
}

/// One request a connection. The client reads a watch to its end before it looks at `stop`.
fn serve(mut connection: TcpStream) -> std::io::Result<()> {
    // A client that has what it needs may keep the connection and not read on.
    connection.set_write_timeout(Some(Duration::from_millis(200)))?;
    let (mut head, mut line) = (String::new(), String::new());
    let mut lines = BufReader::new(&connection);
    while lines.read_line(&mut line)? > 2 {
        head += &line;
        line.clear();
    }
    if head.contains("watch=true") {
        let Some(run) = lock(&RUN).clone() else { return Ok(()) };
        run.1.raise();
        return connection.write_all(&run.0);
    }
    let close = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length";
    connection.write_all(format!("{close}: {}\r\n\r\n{LIST}", LIST.len()).as_bytes())
}

/// Every sentence about the server's answer ends in the log.
struct Judge;

impl Log for Judge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("shared")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            sentence(&record.args().to_string(), 3000);
        }
    }

    fn flush(&self) {}
}
