//! `/healthz`, `/readyz`, `/metrics` and, where a program has one, `/debug/state`: one small HTTP endpoint,
//! one request a connection.

use std::{
    io::{Read, Write},
    net::{IpAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    flags::Flags,
    stop::Stop,
};

/// What a program says of itself.
pub trait Report: Send + Sync + 'static {
    /// `Err` with the reason when the process is broken and must be restarted; never because a
    /// server is away.
    fn healthy(&self) -> std::result::Result<(), String>;
    /// `Err` with the reason when the program does not do its job at present.
    fn ready(&self) -> std::result::Result<(), String>;
    /// What stands in the way although the program does its job, a line each; shown by `/readyz`.
    fn remarks(&self) -> String {
        String::new()
    }
    /// Prometheus' text format.
    fn metrics(&self) -> String;
    /// What the program is at, as JSON for people; `None` where it has no such page.
    fn state(&self) -> Option<String> {
        None
    }
}

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
/// A loop comes by every 15 s; a request with its retries and look-ups may take a minute.
const LONGEST_BEAT: Duration = Duration::from_secs(120);

/// Whether a loop that last came by at `beat` hangs; one that was not started yet does not.
pub fn stuck(beat: Option<Instant>) -> bool {
    beat.is_some_and(|beat| beat.elapsed() > LONGEST_BEAT)
}

/// A client gets this long for the whole of its request, so that a slow one cannot starve the kubelet.
const PATIENCE: Duration = Duration::from_millis(500);
/// Clients at a time: one that is silent must not keep the kubelet waiting.
const MOST_GUESTS: usize = 16;
/// Prometheus' own requests are below 1 KiB.
const LONGEST_REQUEST: usize = 8 << 10;

/// Serves `report` where -metrics-host and -metrics-port say, in a thread of its own; port 0 serves
/// nothing.
///
/// # Errors
/// `BadConfig` when the address cannot be bound.
pub fn serve(flags: &Flags, stop: &Stop, report: impl Report) -> Result<()> {
    let host = flags.some("metrics-host").unwrap_or("0.0.0.0");
    match u16::try_from(flags.number("metrics-port")) {
        Ok(0) | Err(_) => Ok(()),
        Ok(port) => listen(host, port, stop, report),
    }
}

fn listen(host: &str, port: u16, stop: &Stop, report: impl Report) -> Result<()> {
    // No name service: a look-up could outlast a SIGTERM.
    let address = if host == "localhost" { "127.0.0.1" } else { host };
    let address: IpAddr = address.parse().map_err(|_| {
        Error::BadConfig(format!("-metrics-host {host:?} is neither an IP address nor localhost"))
    })?;
    let failed =
        |e| Error::BadConfig(format!("metrics address {host}:{port} cannot be served: {e}"));
    let listener = TcpListener::bind((address, port)).map_err(failed)?;
    let (stop, report, guests) = (stop.clone(), Arc::new(report), Arc::new(()));
    let serve = move || {
        while !stop.raised() {
            let Ok((client, _)) = listener.accept() else {
                // Out of descriptors, say: no reason to spin.
                stop.wait(PATIENCE);
                continue;
            };
            if Arc::strong_count(&guests) > MOST_GUESTS {
                continue;
            }
            let (report, guest) = (report.clone(), guests.clone());
            let served = thread::Builder::new().name("guest".into()).spawn(move || {
                answer(client, &*report);
                drop(guest);
            });
            if served.is_err() {
                stop.wait(PATIENCE);
            }
        }
    };
    thread::Builder::new().name("endpoint".into()).spawn(serve).map(drop).map_err(failed)
}

fn answer(mut client: TcpStream, report: &impl Report) {
    let Some(line) = request_line(&mut client) else {
        return;
    };
    let verdict = |verdict: std::result::Result<(), String>| match verdict {
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
        ("GET" | "HEAD", "/healthz" | "/livez", _) => verdict(report.healthy()),
        ("GET" | "HEAD", "/readyz", _) => match verdict(report.ready()) {
            (200, ok) => (200, ok + &report.remarks()),
            unready => unready,
        },
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
    let mut text = format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if method != "HEAD" {
        text += &body;
    }
    // A client that went away is no concern of ours.
    let _ = client.write_all(text.as_bytes());
}

/// The first line of a whole request; `None` when it does not come in time or is too long.
fn request_line(client: &mut TcpStream) -> Option<String> {
    let deadline = Instant::now() + PATIENCE;
    client.set_write_timeout(Some(PATIENCE)).ok()?;
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left =
            deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        client.set_read_timeout(Some(left)).ok()?;
        let count = client.read(&mut chunk).ok()?;
        request.extend_from_slice(&chunk[..count]);
        if count == 0 || request.len() > LONGEST_REQUEST {
            return None;
        }
    }
    let end = request.iter().position(|&byte| byte == b'\r')?;
    String::from_utf8(request[..end].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Half;

    impl Report for Half {
        fn healthy(&self) -> std::result::Result<(), String> {
            Ok(())
        }
        fn ready(&self) -> std::result::Result<(), String> {
            Err("no lease yet".into())
        }
        fn metrics(&self) -> String {
            "up 1\n".into()
        }
    }

    struct Open;

    impl Report for Open {
        fn healthy(&self) -> std::result::Result<(), String> {
            Ok(())
        }
        fn ready(&self) -> std::result::Result<(), String> {
            Ok(())
        }
        fn metrics(&self) -> String {
            String::new()
        }
        fn state(&self) -> Option<String> {
            Some("{}".into())
        }
    }

    fn served() -> u16 {
        serve(Half)
    }

    fn serve(report: impl Report) -> u16 {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        listen("127.0.0.1", free, &Stop::default(), report).unwrap();
        free
    }

    fn ask(port: u16, request: &str) -> String {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn paths_answer_as_a_kubelet_expects() {
        let port = served();
        assert!(ask(port, "GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
        let ready = ask(port, "GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(ready.starts_with("HTTP/1.1 503") && ready.ends_with("no lease yet\n"), "{ready}");
        assert!(ask(port, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("up 1\n"));
        assert!(ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(port, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(port, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn a_program_may_show_its_state() {
        let get = "GET /debug/state HTTP/1.1\r\n\r\n";
        let state = ask(serve(Open), get);
        assert!(state.contains("200 OK") && state.contains("application/json"), "{state}");
        assert!(state.ends_with("\r\n\r\n{}"), "{state}");
        assert!(ask(served(), get).starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn a_loop_is_stuck_after_two_minutes_and_not_before_it_started() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        assert!(!stuck(None), "the start-up delay");
        assert!(!stuck(ago(LONGEST_BEAT.as_secs() - 1)));
        assert!(stuck(ago(LONGEST_BEAT.as_secs() + 1)));
    }

    #[test]
    fn junk_and_silence_end_the_connection_and_nothing_else() {
        let port = served();
        assert_eq!(ask(port, &"x".repeat(LONGEST_REQUEST + 1024)), "");
        let silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(ask(port, "GET /healthz HTTP/1.1\r\n\r\n").contains("200 OK"));
        drop(silent);
    }

    #[test]
    fn a_taken_port_is_a_sentence() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listen("127.0.0.1", port, &Stop::default(), Half).unwrap_err().to_string();
        assert!(error.contains(&format!("127.0.0.1:{port} cannot be served")), "{error}");
    }
}
