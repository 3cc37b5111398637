//! The proxy that a bootstrap kubeconfig names, by HTTP and by HTTPS.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::Ca;
use kubeconfig::secret;
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::json;
use suite::{eventually, proxy::join, spoke::Spoke};

use crate::joining::support::{bootstrap_with, kubeconfig, settled};

/// A proxy that goes where it is asked to, and remembers it.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// One that speaks TLS with this certificate and key, if any.
    fn new(identity: Option<(String, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (sink, config) = (asked.clone(), identity.map(tls));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (sink, config) = (sink.clone(), config.clone());
                thread::spawn(move || match config {
                    None => plain(client, &sink),
                    Some(config) => over_tls(client, config, &sink),
                });
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("lock").clone()
    }
}

fn tls((certificate, key): (String, String)) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
    let chain: Vec<_> = chain.map(|item| item.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    Arc::new(config.expect("a TLS configuration"))
}

/// Reads a CONNECT and goes there.
fn greet(client: &mut (impl Read + Write), asked: &Mutex<Vec<String>>) -> io::Result<TcpStream> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().expect("lock").push(head.lines().next().unwrap_or_default().to_owned());
    let server = TcpStream::connect(target)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    Ok(server)
}

fn plain(mut client: TcpStream, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let server = greet(&mut client, asked)?;
    join(client, server)
}

/// One thread for both ways, as a session of TLS has no two halves.
fn over_tls(
    client: TcpStream,
    config: Arc<ServerConfig>,
    asked: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let session = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut client = StreamOwned::new(session, client);
    let mut server = greet(&mut client, asked)?;
    let soon = Some(Duration::from_millis(5));
    client.sock.set_read_timeout(soon)?;
    server.set_read_timeout(soon)?;
    while pass(&mut client, &mut server)? && pass(&mut server, &mut client)? {}
    server.shutdown(Shutdown::Both)
}

/// Passes on what is there by now; false at the end.
fn pass(from: &mut impl Read, to: &mut impl Write) -> io::Result<bool> {
    let mut chunk = [0; 16 << 10];
    match from.read(&mut chunk) {
        Ok(0) => Ok(false),
        Ok(count) => to.write_all(&chunk[..count]).and_then(|()| to.flush()).map(|()| true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Joins by a bootstrap kubeconfig with the proxy in it; then every connection went through it.
#[track_caller]
fn joins_through(spoke: &Spoke, proxy: &Proxy, url: &str, authority: &str) {
    spoke.put_bootstrap(&bootstrap_with(spoke, |cluster| {
        cluster["proxy-url"] = json!(url);
        cluster["certificate-authority-data"] = json!(BASE64_STANDARD.encode(authority));
    }));
    let sidecar = spoke.start(&[]);
    settled(spoke, &sidecar);
    let saved = kubeconfig(&spoke.credential().expect("the Secret"));
    assert!(saved.contains(&format!("\n    proxy-url: {url}\n")), "{saved}");
    let asked = proxy.asked();
    let expected = format!("CONNECT {} HTTP/1.1", spoke.hub_relay.address);
    assert!(asked.iter().all(|line| *line == expected), "{asked:?}");
    let connections = spoke.hub_relay.traffic().connections;
    assert!(connections >= 2, "as bootstrap identity and as agent");
    assert!(asked.len() as u64 >= connections, "{asked:?}, but {connections} connections");
    // So will the agents of add-ons.
    let namespace = spoke.addon_namespace();
    spoke.register_addon(&namespace, "addon1");
    let secret = SECRETS.object(&namespace, "addon1-hub-kubeconfig");
    let secret = eventually("the add-on has its credential", || spoke.managed.get(&secret));
    let data = secret::data(&secret).expect("base64");
    let saved = String::from_utf8_lossy(&data["kubeconfig"]);
    assert!(saved.contains(&format!("\n    proxy-url: {url}\n")), "{saved}");
}

// ocm spokecluster_joining_test.go:135
#[test]
fn cluster_joins_through_an_http_proxy() {
    let spoke = Spoke::auto("join-http-proxy");
    let proxy = Proxy::new(None);
    joins_through(&spoke, &proxy, &format!("http://{}", proxy.address), &spoke.hub.cluster.ca);
}

/// As upstream's test does, the bundle of the kubeconfig holds the proxy's authority too.
// ocm spokecluster_joining_test.go:151
#[test]
fn cluster_joins_through_an_https_proxy() {
    let spoke = Spoke::auto("join-https-proxy");
    let authority = Ca::new("proxy");
    let proxy = Proxy::new(Some(authority.server_certificate(&["localhost", "127.0.0.1"])));
    let both = spoke.hub.cluster.ca.clone() + &authority.certificate_pem;
    joins_through(&spoke, &proxy, &format!("https://{}", proxy.address), &both);
}
