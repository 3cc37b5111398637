//! A hub whose clock is ten minutes off, with a certificate that is valid by its clock alone and no bootstrap
//! kubeconfig, by which another hub could give the time.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::json;
use suite::{
    identity::{Data, hub_secret},
    needs::{Need, needs},
    ocm::{Hub, PREFIX, clusters, global},
    sidecar::Sidecar,
    spoke::{AGENT, Spoke},
    throughout,
};

use crate::joining::support::{gives_signs, roles};

// --- a hub that takes the certificate ---

/// A front of the hub by whose clock the agent's certificate is good: the embedded server goes by the true
/// one. Whoever comes here is the agent.
struct Front {
    own: Arc<ServerConfig>,
    to_hub: Arc<ClientConfig>,
    hub: SocketAddr,
    token: String,
}

impl Front {
    fn of(hub: &Hub, token: String) -> Self {
        let server = hub.cluster.server();
        let (certificate, key) = server.ca().server_certificate(&["127.0.0.1"]);
        let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
        let own = ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![pem(&certificate)], key);
        let mut roots = RootCertStore::empty();
        roots.add(pem(&hub.cluster.ca)).expect("an authority");
        let to_hub = ClientConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let own = own.expect("a pair").into();
        Self { own, to_hub: to_hub.into(), hub: server.address(), token }
    }

    /// Opens it for as long as the process lives.
    fn open(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let front = Arc::new(self);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let front = front.clone();
                thread::spawn(move || front.serve(client));
            }
        });
        address
    }

    /// One request, and its answer to the end.
    fn serve(&self, client: TcpStream) -> io::Result<()> {
        let session = ServerConnection::new(self.own.clone()).map_err(io::Error::other)?;
        let mut client = BufReader::new(StreamOwned::new(session, client));
        let name = ServerName::from(self.hub.ip());
        let session = ClientConnection::new(self.to_hub.clone(), name).map_err(io::Error::other)?;
        let mut server = StreamOwned::new(session, TcpStream::connect(self.hub)?);
        let token = format!("Authorization: Bearer {}\r\n", self.token);
        let length = pass_head(&mut client, &mut server, &token)?;
        io::copy(&mut (&mut client).take(length), &mut server)?;
        server.flush()?;
        let (mut server, mut client) = (BufReader::new(server), client.into_inner());
        pass_head(&mut server, &mut client, "")?;
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = server.read(&mut chunk) {
            client.write_all(&chunk[..count])?;
            client.flush()?;
        }
        client.conn.send_close_notify();
        client.flush()
    }
}

/// Passes the head on with `more` in it; how long the body is.
fn pass_head(from: &mut impl BufRead, to: &mut impl Write, more: &str) -> io::Result<u64> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if from.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = head[start..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        if line.starts_with("connection:") {
            head.truncate(start);
        }
        if line == "\r\n" {
            head.truncate(start);
            break;
        }
    }
    to.write_all(format!("{head}{more}Connection: close\r\n\r\n").as_bytes())?;
    to.flush()?;
    Ok(length)
}

// --- the stage ---

/// A cluster that has joined a hub whose clock is `offset` seconds ahead; its certificate is good between
/// these seconds from now, and there is no bootstrap kubeconfig.
fn on_a_hub(name: &str, offset: i64, between: [i64; 2]) -> (Spoke, Data) {
    let spoke = Spoke::new(name);
    spoke.delete_secret(&spoke.bootstrap);
    let clusters = clusters();
    let body = json!({
        "apiVersion": clusters.api_version(), "kind": clusters.kind,
        "metadata": {"name": spoke.cluster},
        "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 1},
    });
    spoke.hub.cluster.create(&global(&clusters, &spoke.cluster).siblings(), &body);
    let groups = [format!("{PREFIX}{}", spoke.cluster), format!("{PREFIX}managed-clusters")];
    let groups: Vec<_> = groups.iter().map(String::as_str).collect();
    let server = spoke.hub.cluster.server();
    server.faults().set_date_offset(offset);
    let [begin, end] = between.map(from_now);
    let pair = server.ca().client_certificate_between(&spoke.user(), &groups, begin, end);
    let address = Front::of(&spoke.hub, server.token(&spoke.user(), &groups)).open().to_string();
    let mut data = hub_secret(&address, &spoke.hub.cluster.ca, &pair);
    data.insert("cluster-name".into(), spoke.cluster.clone().into_bytes());
    data.insert("agent-name".into(), AGENT.into());
    spoke.put_secret(&spoke.secret, &data);
    (spoke, data)
}

fn from_now(seconds: i64) -> SystemTime {
    let time = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { SystemTime::now() - time } else { SystemTime::now() + time }
}

/// It is used as any other: ready, signs of life, nothing asked, nothing written.
#[track_caller]
fn is_used(spoke: &Spoke, sidecar: &mut Sidecar, data: &Data) {
    sidecar.wait_for_code("/readyz", 200);
    gives_signs(spoke);
    throughout(2000, "it is ready", || sidecar.ask("/readyz").0 == 200);
    assert_eq!((roles(spoke), spoke.credential().as_ref()), (vec![], Some(data)));
    assert_eq!(sidecar.count("the hub is used as"), 1, "{}", sidecar.log());
    assert!(sidecar.alive());
}

const BEHIND: (i64, [i64; 2]) = (-600, [-700, -60]);
const AHEAD: (i64, [i64; 2]) = (600, [590, 24 * 3600]);

fn is_good_by_the_hub_s_clock(name: &str, (offset, between): (i64, [i64; 2])) {
    if !needs(Need::Embedded, "the clock can be shifted") {
        return;
    }
    let (spoke, data) = on_a_hub(name, offset, between);
    let mut sidecar = spoke.start(&[]);
    is_used(&spoke, &mut sidecar, &data);
    sidecar.kill();
    // Its files are judged by the same clock.
    let directory = spoke.directory.path().join("dumped");
    fs::create_dir(&directory).expect("a directory");
    for (key, value) in &data {
        fs::write(directory.join(key), value).expect("the file is written");
    }
    let path = directory.to_str().expect("a path");
    let mut sidecar = spoke.start(&["-hub-kubeconfig-dir", path]);
    is_used(&spoke, &mut sidecar, &data);
}

#[test]
fn a_certificate_that_looks_expired_is_good_by_the_clock_of_a_hub_behind() {
    is_good_by_the_hub_s_clock("clock-behind", BEHIND);
}

#[test]
fn a_certificate_of_the_future_is_good_by_the_clock_of_a_hub_ahead() {
    is_good_by_the_hub_s_clock("clock-ahead", AHEAD);
}

/// One that is over by any clock is used for nothing, whatever it was tried with.
#[test]
fn a_certificate_that_is_over_is_over_where_the_hub_s_clock_is_right() {
    if !needs(Need::Embedded, "the clock can be shifted") {
        return;
    }
    let (spoke, data) = on_a_hub("clock-right", 0, BEHIND.1);
    let mut sidecar = spoke.start(&[]);
    sidecar.wait_for("no bootstrap kubeconfig to request one with");
    let why = sidecar.wait_for_code("/readyz", 503);
    assert!(why.contains("expired at"), "{why}");
    throughout(2000, "it is not ready", || sidecar.ask("/readyz").0 == 503);
    assert_eq!((roles(&spoke), spoke.credential()), (vec![], Some(data)));
    assert!(sidecar.count("the hub is used as") <= 1 && sidecar.alive(), "{}", sidecar.log());
}
