//! HTTP/1.1 on a blocking stream. Hand-written, because faults need control of every byte: truncated answers, garbage,
//! false lengths.

use std::{
    io::{self, Read},
    time::SystemTime,
};

use serde_json::Value;

use crate::status::Status;

const HEAD_LIMIT: usize = 64 * 1024;
/// The real server's limit for a request body.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// A request as received.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    pub(crate) method: String,
    /// The target as sent, query included.
    pub(crate) raw: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) too_large: bool,
}

impl Incoming {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).next()
    }

    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        let wanted = move |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.headers.iter().filter(wanted).map(|(_, value)| value.as_str())
    }

    /// Returns whether the Content-Type is JSON or missing.
    pub(crate) fn is_json(&self) -> bool {
        self.header("content-type").is_none_or(|media| media.contains("json"))
    }

    pub(crate) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Reads requests from a stream; buffers the bytes of the next one.
#[derive(Default)]
pub(crate) struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// Returns the next request; None if the client closed the connection before it.
    pub(crate) fn next(&mut self, stream: &mut impl Read) -> io::Result<Option<Incoming>> {
        let (mut request, head) = loop {
            if let Some(parsed) = parse_head(&self.buffer)? {
                break parsed;
            }
            if self.buffer.len() > HEAD_LIMIT {
                return Err(malformed("the head is too large"));
            }
            if !self.fill(stream)? {
                return Ok(None);
            }
        };
        self.buffer.drain(..head);
        request.body = self.sized(stream, &request)?;
        request.too_large = request.body.len() > BODY_LIMIT;
        Ok(Some(request))
    }

    fn fill(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        let read = stream.read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..read]);
        Ok(read > 0)
    }

    fn sized(&mut self, stream: &mut impl Read, request: &Incoming) -> io::Result<Vec<u8>> {
        let length = request.header("content-length").unwrap_or("0").trim();
        let length = length.parse().map_err(|_| malformed("bad Content-Length"))?;
        self.read_exact(stream, length)
    }

    fn read_exact(&mut self, stream: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
        if length > 16 * BODY_LIMIT {
            return Err(malformed("the body is too large"));
        }
        while self.buffer.len() < length {
            if !self.fill(stream)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }
}

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Returns the request without its body, and the length of its head, once the head is complete.
fn parse_head(buffer: &[u8]) -> io::Result<Option<(Incoming, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 96];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(buffer) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(malformed("bad request head")),
    };
    let owned = |header: &httparse::Header<'_>| {
        (header.name.to_string(), String::from_utf8_lossy(header.value).into_owned())
    };
    let incoming = Incoming {
        method: request.method.unwrap_or_default().into(),
        raw: request.path.unwrap_or_default().into(),
        headers: request.headers.iter().map(owned).collect(),
        ..Incoming::default()
    };
    Ok(Some((incoming, head)))
}

/// A complete answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(code: u16, value: &Value) -> Self {
        let mut body = value.to_string().into_bytes();
        body.push(b'\n');
        let content_type = "application/json".into();
        Self { code, content_type, headers: Vec::new(), body }
    }

    pub(crate) fn text(code: u16, text: &str) -> Self {
        let content_type = "text/plain; charset=utf-8".into();
        Self { code, content_type, headers: Vec::new(), body: text.into() }
    }

    pub(crate) fn status(status: &Status) -> Self {
        let mut answer = Self::json(status.code, &status.json());
        if let Some(seconds) = status.details.get("retryAfterSeconds") {
            answer.headers.push(("Retry-After".into(), seconds.to_string()));
        }
        answer
    }

    /// Returns status line and headers. `length` becomes the Content-Length; None announces chunks.
    pub(crate) fn head(&self, date: SystemTime, length: Option<usize>) -> Vec<u8> {
        let framing = match length {
            Some(length) => format!("Content-Length: {length}"),
            None => "Transfer-Encoding: chunked".into(),
        };
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nCache-Control: no-cache, private\r\nContent-Type: {}\r\nDate: {}\r\n{framing}\r\n",
            self.code,
            reason(self.code),
            self.content_type,
            httpdate::fmt_http_date(date),
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Unknown",
    }
}
