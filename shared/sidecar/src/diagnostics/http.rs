//! Requests and responses of the endpoint.

use std::io::{self, ErrorKind};

use super::{Report, Stream};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
/// Prometheus' own requests are below 1 KiB.
const MAX_REQUEST: usize = 8 << 10;

/// The first line of the request, once its head is complete.
pub(super) fn read_request(stream: &mut dyn Stream) -> io::Result<String> {
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

pub(super) fn response(line: &str, report: &dyn Report) -> Vec<u8> {
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
