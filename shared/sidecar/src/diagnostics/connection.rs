//! Connection of one client of the endpoint, over TCP or TLS: reads a request, writes the response.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, TcpStream},
    time::{Duration, Instant},
};

use super::Report;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
/// For a TLS handshake, if there is one, and the request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Prometheus' scrape_timeout.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Prometheus' own requests are below 1 KiB.
const MAX_REQUEST: usize = 8 << 10;

/// A client's stream over a socket that does not block.
pub trait ClientStream: Read + Write + Send {
    /// The socket below it.
    fn socket(&self) -> &TcpStream;
    /// Returns whether it has something to send before it can be read.
    fn wants_write(&self) -> bool {
        false
    }
    /// Puts TLS's goodbye behind the last byte; the next flush sends it.
    fn close(&mut self) {}
}

impl ClientStream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// A client that is served.
pub(super) struct HttpConnection {
    stream: Box<dyn ClientStream>,
    pub(super) address: IpAddr,
    /// The request so far, or the rest of the response.
    bytes: Vec<u8>,
    responds: bool,
    pub(super) deadline: Instant,
}

impl HttpConnection {
    pub(super) fn new(stream: Box<dyn ClientStream>, address: IpAddr) -> Self {
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        Self { stream, address, bytes: Vec::new(), responds: false, deadline }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// Returns whether it waits to send, not to read.
    pub(super) fn sends(&self) -> bool {
        self.responds || self.stream.wants_write()
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        if self.responds { self.bytes.len() } else { 0 }
    }

    /// Reads and writes as far as that is possible without waiting; returns whether more is to be done.
    pub(super) fn advance(&mut self, report: &impl Report) -> bool {
        let pending = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
        self.exchange(report).is_err_and(|error| pending.contains(&error.kind()))
    }

    fn exchange(&mut self, report: &impl Report) -> io::Result<()> {
        if !self.responds {
            let line = self.read_request()?;
            self.bytes = response(&line, report);
            (self.responds, self.deadline) = (true, Instant::now() + RESPONSE_TIMEOUT);
        }
        while !self.bytes.is_empty() {
            match self.stream.write(&self.bytes)? {
                // Of TLS: its buffer and the socket are full.
                0 => return Err(ErrorKind::WouldBlock.into()),
                count => drop(self.bytes.drain(..count)),
            }
        }
        self.stream.close();
        self.stream.flush()
    }

    /// The first line of the request, once its head is complete.
    fn read_request(&mut self) -> io::Result<String> {
        let mut chunk = [0; 1024];
        while !self.bytes.windows(4).any(|end| end == b"\r\n\r\n") {
            match self.stream.read(&mut chunk)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.bytes.extend_from_slice(&chunk[..count]),
            }
            if self.bytes.len() > MAX_REQUEST {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        let line = self.bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).into_owned())
    }
}

/// The whole response, head and body.
fn response(line: &str, report: &impl Report) -> Vec<u8> {
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let probe = |result: Result<(), String>, remarks: String| match result {
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
