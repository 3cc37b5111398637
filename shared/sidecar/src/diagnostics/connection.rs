//! Connection of one client of the endpoint: its request comes in, its response goes out, over TCP or TLS.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, TcpStream},
    time::{Duration, Instant},
};

use super::Report;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
/// The time limit for the request, and for each part of the response.
const STEP_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit for the whole response: Prometheus' scrape_timeout.
const LONGEST_RESPONSE: Duration = Duration::from_secs(10);
/// Prometheus' own requests are below 1 KiB.
const LONGEST_REQUEST: usize = 8 << 10;

/// A client's stream, which never waits.
pub(super) trait ClientStream: Read + Write + Send {
    /// The socket below it.
    fn socket(&self) -> &TcpStream;
    /// Returns whether it has something to send before it can be read.
    fn wants_write(&self) -> bool {
        false
    }
    /// Says goodbye behind the last byte, with the next flush.
    fn close(&mut self) {}
    /// The time limit for what comes before the request, and the request.
    fn request_timeout(&self) -> Duration {
        STEP_TIMEOUT
    }
}

impl ClientStream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// The connection of a client that is served.
pub(super) struct HttpConnection {
    stream: Box<dyn ClientStream>,
    address: IpAddr,
    /// The request so far, or the rest of the response.
    bytes: Vec<u8>,
    phase: ConnectionPhase,
    until: Instant,
    /// The start of the response.
    begun: Instant,
    over: bool,
}

/// Progress of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    Reading,
    Writing,
}

impl HttpConnection {
    /// The stream's socket must not block.
    pub(super) fn new(stream: Box<dyn ClientStream>, address: IpAddr) -> Self {
        let (begun, phase) = (Instant::now(), ConnectionPhase::Reading);
        let until = begun + stream.request_timeout();
        Self { stream, address, bytes: Vec::new(), phase, until, begun, over: false }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns whether it waits to send, not to read.
    pub(super) fn sends(&self) -> bool {
        self.phase == ConnectionPhase::Writing || self.stream.wants_write()
    }

    /// Returns whether the connection is still served.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        !self.over && now < self.until
    }

    /// The unsent bytes of the response.
    pub(super) fn unsent_bytes(&self) -> usize {
        if self.phase == ConnectionPhase::Writing { self.bytes.len() } else { 0 }
    }

    /// Reads and writes as far as that is possible without waiting.
    pub(super) fn advance(&mut self, report: &impl Report) {
        if self.phase == ConnectionPhase::Reading {
            self.read();
            if let Some(line) = request_line(&self.bytes) {
                self.bytes = response(&line, report);
                (self.phase, self.begun) = (ConnectionPhase::Writing, Instant::now());
                self.until = self.begun + STEP_TIMEOUT;
            }
        }
        if self.phase == ConnectionPhase::Writing {
            self.write();
        }
    }

    fn read(&mut self) {
        let mut chunk = [0; 1024];
        while request_line(&self.bytes).is_none() && !self.over {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.over = true,
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.over = error.kind() != ErrorKind::Interrupted,
            }
            self.over |= self.bytes.len() > LONGEST_REQUEST;
        }
    }

    fn write(&mut self) {
        while !self.bytes.is_empty() && !self.over {
            match self.stream.write(&self.bytes) {
                // Of TLS: the buffer is full, and the socket too.
                Ok(0) if self.stream.wants_write() => return,
                Ok(0) => self.over = true,
                Ok(count) => {
                    drop(self.bytes.drain(..count));
                    self.until = (Instant::now() + STEP_TIMEOUT).min(self.begun + LONGEST_RESPONSE);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.over = error.kind() != ErrorKind::Interrupted,
            }
        }
        self.stream.close();
        // What the stream itself keeps back is sent too.
        self.over |=
            !matches!(self.stream.flush(), Err(error) if error.kind() == ErrorKind::WouldBlock);
    }
}

/// The first line of a request, once its head is complete.
fn request_line(request: &[u8]) -> Option<String> {
    request.windows(4).position(|end| end == b"\r\n\r\n")?;
    let line = request.split(|byte| *byte == b'\r').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// The whole response, head and body.
fn response(line: &str, report: &impl Report) -> Vec<u8> {
    let probe = |result: Result<(), String>| match result {
        Ok(()) => (200, "ok\n".to_owned()),
        Err(reason) => (503, format!("{reason}\n")),
    };
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let state = if path == "/debug/state" { report.state() } else { None };
    let content_type = if state.is_some() { JSON } else { TEXT };
    let (code, body) = match (method, path, state) {
        ("GET" | "HEAD", _, Some(state)) => (200, state),
        ("GET" | "HEAD", "/healthz" | "/livez", _) => probe(report.healthy()),
        ("GET" | "HEAD", "/readyz", _) => {
            let (code, body) = probe(report.ready());
            (code, body + &report.remarks())
        }
        ("GET" | "HEAD", "/metrics", _) => (200, report.metrics()),
        ("GET" | "HEAD", ..) => (404, "not found\n".to_owned()),
        _ => (405, "only GET\n".to_owned()),
    };
    let reason = match code {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Service Unavailable",
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if method == "HEAD" { head.into_bytes() } else { (head + &body).into_bytes() }
}
