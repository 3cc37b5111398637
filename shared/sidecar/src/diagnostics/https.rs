//! HTTPS of the diagnostics endpoint: TLS 1.3 with a self-signed certificate, which a kubelet's probe does not verify.

use std::{io, net::TcpStream, sync::Arc};

use apiclient::error::{Error, Result};
use ring::{rand::SystemRandom, signature::KeyPair};
use rustls::{
    ServerConfig, ServerConnection, Stream,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::NoServerSessionStorage,
    version::TLS13,
};
use zeroize::Zeroizing;

use super::{HttpListener, listener::Respond};
use crate::{
    der::{
        ATTRIBUTES, COMMON_NAME, EXTENSIONS, GENERALIZED_TIME, INTEGER, SEQUENCE, UTC_TIME,
        alternative_names, ecdsa, part, public_key, signed, wrap,
    },
    flags::Flags,
    key::{new_key, no_key, pair_of},
};

/// The address of the flag `listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsSettings {
    host: String,
    port: u16,
}

impl HttpsSettings {
    /// `None` without an address.
    pub fn of(flags: &Flags) -> std::result::Result<Option<Self>, String> {
        let Some(listen) = flags.some("listen") else { return Ok(None) };
        let (host, port) = listen.rsplit_once(':').unwrap_or((listen, ""));
        match port.parse() {
            Ok(port) if port > 0 => Ok(Some(Self { host: host.to_owned(), port })),
            _ => Err(format!(
                "-listen must be an address and a port, such as 0.0.0.0:8443, got {listen:?}"
            )),
        }
    }

    /// Listens with a self-signed certificate made for this process.
    pub fn listen(&self) -> Result<HttpListener> {
        let (certificate, key) = self_signed()?;
        let config = Arc::new(server_config(certificate, &key).map_err(|error| {
            Error::bad_config(format!("the endpoint's certificate cannot be used: {error}"))
        })?);
        let session = Arc::new(move |mut client: &TcpStream, answer: &mut Respond<'_>| {
            let mut tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
            answer(&mut Stream::new(&mut tls, &mut client))?;
            tls.send_close_notify();
            tls.complete_io(&mut client).map(drop)
        });
        HttpListener::bind(("address", "-listen"), (&self.host, self.port), session)
    }
}

fn server_config(
    certificate: Vec<u8>,
    key: &[u8],
) -> std::result::Result<ServerConfig, rustls::Error> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)).clone_key();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(certificate)], key)?;
    // A kubelet probes every 10 s and resumes no session: stored sessions would only cost memory.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Returns a new self-signed certificate for the endpoint of this process, and its key, both in DER.
fn self_signed() -> Result<(Vec<u8>, Zeroizing<Vec<u8>>)> {
    let key = new_key()?;
    let pair = pair_of(&key).ok_or_else(|| no_key(()))?;
    let content = own_certificate("localhost", pair.public_key().as_ref());
    let signature = pair.sign(&SystemRandom::new(), &content).map_err(no_key)?;
    Ok((signed(&content, signature.as_ref()), key))
}

/// TBSCertificate of the host `name` for its own key, valid at any time (RFC 5280, sections 4.1 and 4.1.2.5): its
/// clients verify nothing, and it must not depend on a clock.
fn own_certificate(name: &str, point: &[u8]) -> Vec<u8> {
    let host = wrap(SEQUENCE, &part(COMMON_NAME, name));
    let validity = [wrap(UTC_TIME, b"700101000000Z"), wrap(GENERALIZED_TIME, b"99991231235959Z")];
    let parts = [
        wrap(ATTRIBUTES, &wrap(INTEGER, &[2])),
        wrap(INTEGER, &[1]),
        ecdsa(),
        host.clone(),
        wrap(SEQUENCE, &validity.concat()),
        host,
        public_key(point),
        wrap(EXTENSIONS, &alternative_names(&[name.to_owned()])),
    ];
    wrap(SEQUENCE, &parts.concat())
}
