//! HTTP endpoint with `/healthz`, `/readyz`, `/metrics` and, in some programs, `/debug/state`. Each connection has a
//! thread and serves one request.

mod https;
mod listener;

use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiclient::{error::Result, lock::lock};

use crate::{flags::Flags, runtime};

use self::listener::Stream;
pub use self::{https::HttpsSettings, listener::HttpListener};

pub trait Report: Send + 'static {
    /// `Err` with the reason if the process must be restarted; never because a server is unreachable.
    fn healthy(&self) -> std::result::Result<(), String>;
    /// `Err` with the reason if the program cannot do its job at present.
    fn ready(&self) -> std::result::Result<(), String>;
    /// Other problems for `/readyz`, a line each.
    fn remarks(&self) -> String {
        String::new()
    }
    /// Prometheus' text format.
    fn metrics(&self) -> String;
    /// The program's state in JSON, for `/debug/state`; `None` if the program has no such page.
    fn state(&self) -> Option<String> {
        None
    }
}

/// Liveness timeout of a main loop: a heartbeat every 15 s, and the longest request with its retries.
pub const LOOP_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns whether a loop hangs that last ran at `beat`; `None` means that it has not started.
pub fn stuck(beat: Option<Instant>, timeout: Duration) -> bool {
    beat.is_some_and(|beat| beat.elapsed() > timeout)
}

/// Another connection closes the oldest one: silent clients must not delay the kubelet, and slow readers hold few
/// responses in memory.
const MAX_CONNECTIONS: usize = 16;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
/// A request of Prometheus has less than 1 KiB.
const MAX_REQUEST: usize = 8 << 10;

/// Serves `report` at -metrics-host and -metrics-port, and at `more`, until the end of the process.
pub fn serve(flags: &Flags, more: Option<HttpListener>, report: impl Report) -> Result<()> {
    let mut listeners: Vec<_> = more.into_iter().collect();
    match u16::try_from(flags.number("metrics-port")) {
        Ok(0) | Err(_) => {}
        Ok(port) => listeners.push(HttpListener::plain(flags.text("metrics-host"), port)?),
    }
    start(listeners, report)
}

fn start(listeners: Vec<HttpListener>, report: impl Report) -> Result<()> {
    let report = Mutex::new(Box::new(report) as Box<dyn Report>);
    let server = Arc::new(Server { report, open: Mutex::default() });
    listeners.into_iter().try_for_each(|listener| {
        let server = server.clone();
        runtime::spawn("endpoint", move || listener.run(&server))
    })
}

struct Server {
    /// Locked while a response is built, which bounds the memory for responses.
    report: Mutex<Box<dyn Report>>,
    /// The oldest first.
    open: Mutex<VecDeque<Arc<TcpStream>>>,
}

impl Server {
    fn admit(&self, client: &Arc<TcpStream>) {
        let mut open = lock(&self.open);
        open.push_back(client.clone());
        if open.len() > MAX_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            // Ends the thread that reads from or writes to it.
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    fn dismiss(&self, client: &Arc<TcpStream>) {
        lock(&self.open).retain(|it| !Arc::ptr_eq(it, client));
    }

    fn is_open(&self, client: &Arc<TcpStream>) -> bool {
        lock(&self.open).iter().any(|it| Arc::ptr_eq(it, client))
    }

    fn answer(&self, client: &Arc<TcpStream>, stream: &mut dyn Stream) -> io::Result<()> {
        let request = read_request(stream)?;
        let report = lock(&self.report);
        // It may have been closed while it waited for the lock.
        if !self.is_open(client) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let response = response(&request, &**report);
        drop(report);
        stream.write_all(&response)?;
        stream.flush()
    }
}

/// The first line of the request, once all headers have arrived.
fn read_request(stream: &mut dyn Stream) -> io::Result<String> {
    let (mut head, mut chunk) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&chunk[..count]),
        }
        if head.len() > MAX_REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn response(line: &str, report: &dyn Report) -> Vec<u8> {
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let probe = |result: std::result::Result<(), String>, remarks: String| match result {
        Ok(()) => ("200 OK", TEXT, format!("ok\n{remarks}")),
        Err(reason) => ("503 Service Unavailable", TEXT, format!("{reason}\n{remarks}")),
    };
    let not_found = || ("404 Not Found", TEXT, "not found\n".to_owned());
    let (status, content_type, body) = match (method, path) {
        ("GET", "/healthz" | "/livez") => probe(report.healthy(), String::new()),
        ("GET", "/readyz") => probe(report.ready(), report.remarks()),
        ("GET", "/metrics") => ("200 OK", TEXT, report.metrics()),
        ("GET", "/debug/state") => {
            report.state().map_or_else(not_found, |state| ("200 OK", JSON, state))
        }
        ("GET", _) => not_found(),
        _ => ("405 Method Not Allowed", TEXT, "only GET\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    (head + &body).into_bytes()
}

#[cfg(test)]
mod tests;
