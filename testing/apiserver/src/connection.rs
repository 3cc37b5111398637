//! One connection: the handshake, then one request at a time, each with or without a fault.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant, SystemTime},
};

use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::CertificateDer};
use serde_json::Value;

use crate::{
    cluster::Cluster,
    effects::{null_spec, replacement},
    gate::State,
    http::{Answer, Incoming, Reader},
    requests::Request,
    router::{self, Call, Reply},
    rules::Action,
    target::{self, Query, Target},
    user::User,
    watch::{Next, Watch},
};

/// Interval at which a quiet watch checks that its client is still connected.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Serves a connection until it ends.
pub(crate) fn serve(cluster: Arc<Cluster>, tls: Arc<ServerConfig>, tcp: TcpStream, id: u64) {
    // An error is a normal end here: the client disconnected, or a fault cut the connection.
    let _ = open(cluster, tls, tcp, id).map(|connection| connection.map(Connection::run));
}

fn open(
    cluster: Arc<Cluster>,
    tls: Arc<ServerConfig>,
    mut tcp: TcpStream,
    id: u64,
) -> io::Result<Option<Connection>> {
    tcp.set_nodelay(true)?;
    let raw = tcp.try_clone()?;
    match cluster.faults.gate().pass() {
        None => return Ok(None),
        Some(State::GarbageHandshake) => {
            tcp.write_all(b"220 this is not the server you are looking for\r\n")?;
            return Ok(None);
        }
        Some(State::Alert) => {
            // Read the ClientHello first: unread data would turn the close into a reset.
            let _ = tcp.read(&mut [0; 4096]);
            tcp.write_all(&[0x15, 3, 3, 0, 2, 2, 40])?;
            return Ok(None);
        }
        Some(_) => {}
    }
    let mut session = ServerConnection::new(tls).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut tcp)?;
    }
    cluster.log.handshakes.fetch_add(1, Relaxed);
    let certificates = session.peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().map(|der| der.clone().into_owned()).collect();
    let stream = StreamOwned::new(session, tcp);
    Ok(Some(Connection { cluster, stream, raw, certificates, id }))
}

struct Connection {
    cluster: Arc<Cluster>,
    stream: StreamOwned<ServerConnection, TcpStream>,
    /// The socket below the stream.
    raw: TcpStream,
    certificates: Vec<CertificateDer<'static>>,
    id: u64,
}

impl Connection {
    fn run(mut self) {
        let mut reader = Reader::default();
        loop {
            match reader.next(&mut self.stream) {
                Ok(Some(request)) => match self.exchange(&request) {
                    Ok(true) if !request.wants_close() => {}
                    _ => return,
                },
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let answer = Answer::text(400, "400 Bad Request");
                    let _ = self.stream.write_all(&serialize(&answer, SystemTime::now()));
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// Handles one request; returns false if the connection must end.
    fn exchange(&mut self, request: &Incoming) -> io::Result<bool> {
        if self.cluster.faults.gate().pass().is_none() {
            return Ok(false);
        }
        let (path, query) = target::split(&request.raw);
        let parsed = Query::new(&query);
        let call = Call {
            target: Target::new(&request.method, &path, &parsed),
            query: parsed,
            path,
            user: self.cluster.identities.authenticate(&self.certificates, request),
        };
        let user = call.user.clone().ok().flatten().unwrap_or_default();
        let entry = self.log(&call, &query, request, &user);
        let (delay, action) = self.cluster.faults.strike(&call.path, &call.target, &user.name);
        self.cluster.faults.gate().sleep(delay);
        let reply = match &action {
            Some(Action::Drop) => return Ok(false),
            Some(Action::Garbage) => {
                self.stream.write_all(b"\x00\xff\x13 garbage \x00\xfe\r\n\r\n")?;
                self.stream.flush()?;
                return Ok(false);
            }
            Some(action) => match replacement(action, &call.target, &user) {
                Some(answer) => Reply::Answer(answer),
                None => router::handle(&self.cluster, &call, request),
            },
            None => router::handle(&self.cluster, &call, request),
        };
        match action {
            Some(Action::ApplyThenDrop) => return Ok(false),
            Some(Action::ApplyThenDelay { milliseconds }) => {
                self.cluster.faults.gate().sleep(Duration::from_millis(milliseconds));
            }
            _ => {}
        }
        // If the server hangs by now, the answer must wait.
        let Some(state) = self.cluster.faults.gate().pass() else { return Ok(false) };
        let keep = match reply {
            Reply::Answer(answer) => self.answer(entry, answer, action)?,
            Reply::Watch(watch) => self.watch(entry, *watch, action)?,
        };
        Ok(keep && state != State::CloseAfterAnswer)
    }

    fn log(&self, call: &Call, query: &str, request: &Incoming, user: &User) -> u64 {
        let target = &call.target;
        let mut entry = Request {
            id: 0,
            at: Instant::now(),
            time: SystemTime::now(),
            connection: self.id,
            user: user.name.clone(),
            method: request.method.clone(),
            path: call.path.clone(),
            query: query.into(),
            verb: target.verb.into(),
            group: target.group.clone(),
            resource: target.resource.clone(),
            subresource: target.subresource.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            user_agent: request.header("user-agent").unwrap_or_default().into(),
            accept: request.header("accept").unwrap_or_default().into(),
            content_type: request.header("content-type").unwrap_or_default().into(),
            body: Vec::new(),
            code: 0,
            sent: 0,
        };
        entry.keep_body(&request.body);
        self.cluster.log.begin(entry)
    }

    fn answer(
        &mut self,
        entry: u64,
        mut answer: Answer,
        action: Option<Action>,
    ) -> io::Result<bool> {
        match &action {
            Some(Action::NullSpec) => null_spec(&mut answer),
            Some(Action::HugeHeaders { bytes }) => {
                answer.headers.push(("X-Filler".into(), "x".repeat(*bytes)));
            }
            _ => {}
        }
        let date = self.cluster.date();
        let head = answer.head(date, Some(answer.body.len()));
        let (bytes, keep) = match action {
            Some(Action::Truncate) => {
                ([head, answer.body[..answer.body.len() / 2].to_vec()].concat(), false)
            }
            Some(Action::Stall) => (head, true),
            Some(Action::HugeBody { bytes }) => return self.huge_body(entry, &answer, bytes),
            _ => (serialize(&answer, date), true),
        };
        // Logged before it is sent, so that the log has the code once the client has the answer.
        self.cluster.log.amend(entry, |request| {
            request.code = answer.code;
            request.sent = bytes.len() as u64;
        });
        self.stream.write_all(&bytes)?;
        self.stream.flush()?;
        if action == Some(Action::Stall) {
            self.wait_for_client();
            return Ok(false);
        }
        Ok(keep)
    }

    fn huge_body(&mut self, entry: u64, answer: &Answer, bytes: u64) -> io::Result<bool> {
        self.cluster.log.amend(entry, |request| request.code = answer.code);
        self.stream.write_all(&answer.head(self.cluster.date(), None))?;
        let block = [b' '; 16 * 1024];
        let mut left = bytes;
        while left > 0 {
            let part = left.min(block.len() as u64) as usize;
            self.chunk(&block[..part])?;
            left -= part as u64;
        }
        self.stream.write_all(b"0\r\n\r\n")?;
        self.stream.flush()?;
        Ok(true)
    }

    fn watch(&mut self, entry: u64, watch: Watch, action: Option<Action>) -> io::Result<bool> {
        let answer = Answer::json(200, &Value::Null);
        let head = answer.head(self.cluster.date(), None);
        self.cluster.log.amend(entry, |request| request.code = 200);
        self.stream.write_all(&head)?;
        self.stream.flush()?;
        let mut sent = head.len();
        let done = match action {
            Some(Action::WatchSilent | Action::Stall) => {
                self.wait_for_client();
                Ok(false)
            }
            Some(Action::WatchSays { bytes }) => {
                self.chunk(bytes.as_bytes())?;
                self.events(watch, &mut sent, None)
            }
            Some(Action::WatchBlanks { milliseconds }) => {
                while self.cluster.faults.gate().pass().is_some() && !self.client_is_gone() {
                    self.chunk(b"\n")?;
                    self.cluster.faults.gate().sleep(Duration::from_millis(milliseconds));
                }
                Ok(false)
            }
            Some(Action::WatchCut { events }) => self.events(watch, &mut sent, Some(events)),
            _ => self.events(watch, &mut sent, None),
        };
        self.cluster.log.amend(entry, |request| request.sent = sent as u64);
        done
    }

    /// Writes events until the watch ends, the client disconnects, or `limit` cuts a line in half.
    fn events(
        &mut self,
        mut watch: Watch,
        sent: &mut usize,
        limit: Option<u32>,
    ) -> io::Result<bool> {
        let mut left = limit;
        loop {
            let next = watch.next(CLIENT_CHECK_INTERVAL);
            if self.cluster.faults.gate().pass().is_none() {
                return Ok(false);
            }
            match next {
                Next::Line(line) if left == Some(0) => {
                    self.chunk(&line[..line.len() / 2])?;
                    return Ok(false);
                }
                Next::Line(line) => {
                    *sent += line.len();
                    self.chunk(&line)?;
                    left = left.map(|left| left - 1);
                }
                Next::Quiet if self.client_is_gone() => return Ok(false),
                Next::Quiet => {}
                Next::End => {
                    self.stream.write_all(b"0\r\n\r\n")?;
                    self.stream.flush()?;
                    return Ok(true);
                }
            }
        }
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let size = format!("{:x}\r\n", bytes.len());
        self.stream.write_all(&[size.as_bytes(), bytes, b"\r\n"].concat())?;
        self.stream.flush()
    }

    fn wait_for_client(&mut self) {
        while self.cluster.faults.gate().pass().is_some() && !self.client_is_gone() {
            self.cluster.faults.gate().sleep(CLIENT_CHECK_INTERVAL);
        }
    }

    /// Returns whether the client is gone: while it waits, it sends only the end of the stream or a TLS close_notify.
    /// Either makes the socket readable.
    fn client_is_gone(&self) -> bool {
        let _ = self.raw.set_nonblocking(true);
        let peeked = self.raw.peek(&mut [0]);
        let _ = self.raw.set_nonblocking(false);
        !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

fn serialize(answer: &Answer, date: SystemTime) -> Vec<u8> {
    [answer.head(date, Some(answer.body.len())), answer.body.clone()].concat()
}
