//! A TLS server under the test's control: any certificate, any bytes as an answer.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::{
    ServerConfig, ServerConnection, Stream,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// A CA that signs whatever a test needs.
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pub pem: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        Self::with(name, |_| {})
    }

    pub fn with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        change(&mut params);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { params, key, pem }
    }

    /// Returns its own certificate and key, for a server that presents them.
    pub fn own(&self) -> (String, String) {
        (self.pem.clone(), self.key.serialize_pem())
    }

    /// Returns a certificate and key, in PEM, for `names` (DNS names or IP addresses).
    pub fn sign(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.subject_alt_names = names
            .iter()
            .map(|name| match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into().expect("a name")),
            })
            .collect();
        change(&mut params);
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}

/// The server; it answers every request with the same bytes and closes the connection.
pub struct Rogue {
    pub address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    over: AtomicBool,
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Rogue {
    pub fn start((certificate, key): &(String, String), answer: &[u8]) -> Self {
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
        let chain: Vec<_> = chain.map(|item| item.expect("a certificate")).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .expect("a TLS configuration");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let counts = Arc::new(Counts::default());
        let (config, answer, seen) = (Arc::new(config), answer.to_vec(), counts.clone());
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if seen.over.load(SeqCst) {
                    return;
                }
                seen.connections.fetch_add(1, SeqCst);
                // An error means that the client refused.
                let _ = serve(connection, &config, &answer, &seen.requests);
            }
        });
        Self { address, counts }
    }

    pub fn connections(&self) -> usize {
        self.counts.connections.load(SeqCst)
    }

    /// Returns the number of requests that arrived, including their credentials.
    pub fn requests(&self) -> usize {
        self.counts.requests.load(SeqCst)
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.counts.over.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    mut tcp: TcpStream,
    config: &Arc<ServerConfig>,
    answer: &[u8],
    requests: &AtomicUsize,
) -> std::io::Result<()> {
    let mut session = ServerConnection::new(config.clone()).map_err(std::io::Error::other)?;
    let mut stream = Stream::new(&mut session, &mut tcp);
    let mut request = [0; 16 << 10];
    if stream.read(&mut request)? > 0 {
        requests.fetch_add(1, SeqCst);
        stream.write_all(answer)?;
        stream.flush()?;
        session.send_close_notify();
        session.complete_io(&mut tcp)?;
    }
    tcp.shutdown(Shutdown::Both)
}
