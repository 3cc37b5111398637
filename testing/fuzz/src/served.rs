//! A local server whose answers each run chooses, and a client for it.

use std::{
    io::{BufRead, BufReader, Read, Result, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::Duration,
};

use log::{LevelFilter, Log, Metadata, Record};
use shared::{
    client::{Client, Reload, Timeouts},
    config::{Auth, ClusterConfig, Trust},
    lock::lock,
};

use crate::assert_one_line;

/// A request from the client.
pub struct Request {
    /// Method, path and query.
    pub line: String,
    /// The body.
    pub body: Vec<u8>,
}

type Answer = Arc<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

/// The answers to the next requests.
static ANSWER: Mutex<Option<Answer>> = Mutex::new(None);

/// The client. From now on `answer` answers its requests, each with a complete answer on a connection of its
/// own.
pub fn client_with(
    answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
) -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    *lock(&ANSWER) = Some(Arc::new(answer));
    CLIENT.get_or_init(client)
}

/// An answer with a JSON body.
pub fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// The same, but the body ends with the connection.
pub fn close_delimited(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// The same, but the body comes in chunks of this size.
pub fn chunked(status: &str, body: &[u8], size: usize) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body.chunks(size.max(1)) {
        answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
        answer.extend(chunk);
        answer.extend(b"\r\n");
    }
    answer.extend(b"0\r\n\r\n");
    answer
}

fn client() -> Client {
    let _ = log::set_logger(&LogCheck);
    log::set_max_level(LevelFilter::Debug);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // The client may already have closed the connection.
            let _ = serve(connection);
        }
    });
    let access = ClusterConfig {
        server: format!("http://127.0.0.1:{port}"),
        trust: Trust::System,
        server_name: None,
        identity: None,
        auth: Auth::None,
        impersonate: Vec::new(),
        proxy: None,
        namespace: None,
    };
    let timing = Timeouts::with_request(Duration::from_secs(60));
    Client::new("the hub", access, Reload::Never, timing).expect("a client")
}

/// Serves one request per connection.
fn serve(mut connection: TcpStream) -> Result<()> {
    // A client that has what it needs may keep the connection open without reading; on a busy machine it
    // reads late.
    connection.set_write_timeout(Some(Duration::from_secs(5)))?;
    let request = request(&connection)?;
    let answer = lock(&ANSWER).clone();
    match answer {
        Some(answer) => connection.write_all(&answer(&request)),
        None => Ok(()),
    }
}

fn request(connection: &TcpStream) -> Result<Request> {
    let (mut lines, mut line, mut length) = (BufReader::new(connection), String::new(), 0);
    lines.read_line(&mut line)?;
    loop {
        let mut header = String::new();
        if lines.read_line(&mut header)? <= 2 {
            break;
        }
        if let Some((name, value)) = header.split_once(": ")
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    // Whatever the server sent before, a request line contains nothing else.
    let line = line.trim_end().to_owned();
    assert!(line.bytes().all(|b| b.is_ascii_graphic() || b == b' '), "{line:?}");
    assert_eq!(line.split(' ').count(), 3, "{line:?}");
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    Ok(Request { line, body })
}

/// Checks every log line, which is where each message about the server's answers ends up.
struct LogCheck;

impl Log for LogCheck {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("shared")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            assert_one_line(&record.args().to_string(), 3000);
        }
    }

    fn flush(&self) {}
}
