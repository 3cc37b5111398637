//! TLS of a connection: roots, client certificate and the name to verify.
//!
//! It replaces ureq's rustls connector (ureq src/tls/rustls.rs), which panics on a certificate that does not match its
//! key, ignores invalid roots, and always verifies the host of the URL.

mod trust;

use std::{
    fmt,
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, StreamOwned, crypto::ring::default_provider,
    pki_types::ServerName, sign::SingleCertAndKey,
};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

use self::trust::Verifier;
use kubeconfig::{certified_key, config::ClusterConfig};

use crate::{
    client::dial::{bare_host, left_of},
    error::{Error, Result},
};

/// The time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The connector in the chain that turns a TCP connection into TLS.
#[derive(Debug)]
pub(crate) struct TlsConnector {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    proxied: bool,
}

impl TlsConnector {
    /// Validates roots, certificate, key and name, so that only the peer can make a connection fail.
    pub(crate) fn new(config: &ClusterConfig, proxied: bool) -> Result<Self> {
        let server_name = config.server_name.clone().map(|name| {
            let bad = format!("tls-server-name {name:?} is not a host name");
            ServerName::try_from(name).map_err(|_| Error::bad_config(bad))
        });
        let server_name = server_name.transpose()?;
        Ok(Self { config: Arc::new(client_config(config)?), server_name, proxied })
    }

    /// The name to verify. An https proxy has its own: ureq runs the chain for it with a configuration without a proxy
    /// (src/unversioned/transport/connect.rs).
    fn name(
        &self,
        details: &ConnectionDetails,
    ) -> std::result::Result<ServerName<'static>, ureq::Error> {
        let proxy_leg = self.proxied && details.config.proxy().is_none();
        match &self.server_name {
            Some(name) if !proxy_leg => Ok(name.clone()),
            _ => ServerName::try_from(bare_host(details.uri).to_owned())
                .map_err(|_| ureq::Error::Tls("the server's host is not a valid TLS name")),
        }
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> std::result::Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let mut tls = ClientConnection::new(self.config.clone(), self.name(details)?)
            .map_err(io::Error::other)?;
        let mut socket = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        // Apart from the limits for DNS and TCP.
        let mut timeout = left_of(details);
        timeout.after = timeout.after.min(HANDSHAKE_TIMEOUT.into());
        socket.set_timeout(timeout);
        // Here, so that the connect time-out covers the handshake.
        tls.complete_io(&mut socket)?;
        let config = &details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { buffers, stream: StreamOwned::new(tls, socket) })))
    }
}

pub(crate) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(
        &mut self,
        amount: usize,
        timeout: NextTimeout,
    ) -> std::result::Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> std::result::Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport")
    }
}

fn client_config(config: &ClusterConfig) -> Result<ClientConfig> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::bad_config(format!("TLS cannot be set up: {e}")))?;
    let verifier = Arc::new(Verifier::new(&config.trust, &provider)?);
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let Some(identity) = &config.identity else {
        return Ok(builder.with_no_client_auth());
    };
    // `with_client_auth_cert` would refuse X.509 v1, which webpki cannot parse but servers accept.
    let pair = certified_key(&identity.certificate, &identity.key);
    let pair = pair.map_err(|what| Error::bad_config(format!("the client's identity {what}")))?;
    Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair))))
}
