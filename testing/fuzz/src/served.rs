//! A local server, whose answers each run chooses, and its client.

use std::{
    io::{BufRead, BufReader, Result, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::Duration,
};

use apiclient::{
    client::{Client, Reload, Timeouts},
    lock::lock,
};
use kubeconfig::config::{Auth, ClusterConfig, Trust};
use log::{LevelFilter, Log, Metadata, Record};

use crate::assert_one_line;

/// Returns the bytes to send for a request line: method, path and query.
type Answer = Arc<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// The answers to the next requests.
static ANSWER: Mutex<Option<Answer>> = Mutex::new(None);

/// Returns the client. From now on, `answer` provides a complete answer to each of its requests, on a separate
/// connection.
pub fn client_with(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    *lock(&ANSWER) = Some(Arc::new(answer));
    CLIENT.get_or_init(client)
}

/// Returns an answer with a JSON body.
pub fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Returns an answer without a Content-Length, whose body ends with the connection.
pub fn close_delimited(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n");
    [head.as_bytes(), body].concat()
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
        proxy: None,
        namespace: None,
    };
    let timing = Timeouts::with_request(Duration::from_secs(60));
    Client::new("the hub", access, Reload::Never, timing).expect("a client")
}

/// Serves one request per connection.
fn serve(mut connection: TcpStream) -> Result<()> {
    // A client may stop reading once it has what it needs, and keep the connection open; on a busy machine, it reads
    // late.
    connection.set_write_timeout(Some(Duration::from_secs(5)))?;
    let request = request(&connection)?;
    let answer = lock(&ANSWER).clone();
    match answer {
        Some(answer) => connection.write_all(&answer(&request)),
        None => Ok(()),
    }
}

/// Returns the request line; read requests have no body.
fn request(connection: &TcpStream) -> Result<String> {
    let mut lines = BufReader::new(connection).lines();
    let line = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for header in lines {
        if header?.is_empty() {
            break;
        }
    }
    // Whatever the server sent before, a request line has only these characters.
    assert!(line.bytes().all(|b| b.is_ascii_graphic() || b == b' '), "{line:?}");
    assert_eq!(line.split(' ').count(), 3, "{line:?}");
    Ok(line)
}

/// Checks every log line: every message about the server's answers ends up there.
struct LogCheck;

impl Log for LogCheck {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("apiclient")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            assert_one_line(&record.args().to_string(), 3000);
        }
    }

    fn flush(&self) {}
}
