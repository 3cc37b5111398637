//! The control interface of the binary: faults, requests and credentials over plain HTTP on the
//! loopback. README.md shows it in use.

use std::{
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    gate::State,
    handle::Handle,
    http::{Answer, Incoming, Reader},
    status::Status,
    target::split,
    user::User,
};

/// The listening control interface; dropping it frees its port.
pub(crate) struct Control {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    pub(crate) fn start(handle: Handle, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = stopped.clone();
        let accept = move || {
            // One connection at a time: control clients are few and patient.
            for stream in listener.incoming().flatten() {
                if stop.load(Relaxed) {
                    return;
                }
                let _ = serve(&handle, stream);
            }
        };
        let thread = Some(thread::Builder::new().name("control".into()).spawn(accept)?);
        Ok(Self { address, stopped, thread })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopped.store(true, Relaxed);
        // Wakes the thread from its accept.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(handle: &Handle, mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let Some(request) = Reader::default().next(&mut stream)? else { return Ok(()) };
    let mut answer = match dispatch(handle, &request) {
        Ok(value) => Answer::json(200, &value),
        Err(status) => Answer::status(&status),
    };
    answer.headers.push(("Connection".into(), "close".into()));
    stream.write_all(&answer.head(SystemTime::now(), Some(answer.body.len())))?;
    stream.write_all(&answer.body)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewState {
    state: State,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NewIdentity {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default = "an_hour")]
    seconds: u64,
}

fn an_hour() -> u64 {
    3600
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDate {
    seconds: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldToken {
    token: String,
}

fn dispatch(handle: &Handle, request: &Incoming) -> Result<Value, Status> {
    let (path, _) = split(&request.raw);
    let cluster = &handle.cluster;
    match (request.method.as_str(), path.as_str()) {
        ("GET", "/requests") => return Ok(json!(cluster.log.all())),
        ("GET", "/counters") => return Ok(json!(cluster.log.counters())),
        ("GET", "/kubeconfig") => return Ok(json!({"kubeconfig": handle.kubeconfig()})),
        ("POST", "/faults") => return Ok(json!({"id": cluster.faults.add(body(request)?)})),
        ("POST", "/objects") => return handle.put(body(request)?),
        ("POST", "/certificates") => return Ok(certificate(handle, &body(request)?)),
        ("POST", "/tokens") => return Ok(token(handle, body(request)?)),
        ("POST", "/approve") => decide(handle, request, "Approved")?,
        ("POST", "/deny") => decide(handle, request, "Denied")?,
        ("DELETE", "/requests") => cluster.log.clear(),
        ("DELETE", "/faults") => cluster.faults.clear(),
        ("DELETE", "/tokens") => cluster.identities.revoke(&body::<OldToken>(request)?.token),
        ("POST", "/server") => cluster.faults.set_state(body::<NewState>(request)?.state),
        ("POST", "/heal") => cluster.faults.heal(),
        ("POST", "/date") => cluster.faults.set_date_offset(body::<NewDate>(request)?.seconds),
        ("POST", "/compact") => cluster.store.compact(),
        _ => return Err(Status::no_such_resource()),
    }
    Ok(json!({}))
}

fn decide(handle: &Handle, request: &Incoming, condition: &str) -> Result<(), Status> {
    let found = handle.decide(&body::<Named>(request)?.name, condition);
    if found { Ok(()) } else { Err(Status::no_such_resource()) }
}

fn token(handle: &Handle, new: NewIdentity) -> Value {
    let user = User::new(&new.user, new.groups);
    let valid_for = Duration::from_secs(new.seconds);
    json!({"token": handle.cluster.identities.issue(user, valid_for, None)})
}

fn body<T: DeserializeOwned>(request: &Incoming) -> Result<T, Status> {
    serde_json::from_slice(&request.body).map_err(|error| Status::bad_request(error.to_string()))
}

fn certificate(handle: &Handle, new: &NewIdentity) -> Value {
    let ca = &handle.cluster.ca;
    let groups: Vec<&str> = new.groups.iter().map(String::as_str).collect();
    let (certificate, key) =
        ca.client_certificate(&new.user, &groups, Duration::from_secs(new.seconds));
    json!({"certificate": certificate, "key": key, "ca": ca.certificate_pem})
}
