//! The endpoint by HTTPS, for probes that want it so: with a certificate that nobody verifies, for clients of TLS 1.2
//! and later. Flags and their values are those of Kubernetes' servers (component-base `cli/flag/ciphersuites_flag.go`,
//! library-go `pkg/config/serving/options.go`).

use std::{io, sync::Arc};

use apiclient::error::{Error, Result};
use rustls::{
    DEFAULT_VERSIONS, ServerConfig, ServerConnection, Stream, SupportedCipherSuite,
    SupportedProtocolVersion,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::NoServerSessionStorage,
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
};
use sidecar::{
    diagnostics::{ClientSocket, HttpListener, Respond},
    flags::Flags,
};

use crate::certificate::csr::self_signed;

static ONLY_TLS13: [&SupportedProtocolVersion; 1] = [&TLS13];

/// What the flags `listen`, `tls-min-version` and `tls-cipher-suites` say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsSettings {
    host: String,
    port: u16,
    /// Nothing older than TLS 1.3.
    only_tls13: bool,
    /// Names of cipher suites; empty for all.
    suites: Vec<String>,
}

impl HttpsSettings {
    /// The flags' values; `None` without an address.
    pub fn of(flags: &Flags) -> std::result::Result<Option<Self>, String> {
        let only_tls13 = match flags.text("tls-min-version") {
            // A minimum: nothing older than 1.2 is spoken anyway.
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => false,
            "VersionTLS13" => true,
            other => {
                return Err(format!(
                    "-tls-min-version must be VersionTLS12 or VersionTLS13, got {other:?}"
                ));
            }
        };
        let suites: Vec<_> =
            flags.list("tls-cipher-suites").into_iter().map(str::to_owned).collect();
        if let Some(name) = suites.iter().find(|name| !name.starts_with("TLS_")) {
            return Err(format!("-tls-cipher-suites: unknown cipher suite {name:?}"));
        }
        let Some(listen) = flags.some("listen") else { return Ok(None) };
        let (host, port) = listen.rsplit_once(':').unwrap_or((listen, ""));
        match port.parse() {
            Ok(port) if port > 0 => {
                Ok(Some(Self { host: host.to_owned(), port, only_tls13, suites }))
            }
            _ => Err(format!(
                "-listen must be an address and a port, such as 0.0.0.0:8443, got {listen:?}"
            )),
        }
    }

    /// Listens with a self-signed certificate made for this process.
    pub fn listen(&self) -> Result<HttpListener> {
        let (certificate, key) = self_signed()?;
        self.listen_with(certificate, &key)
    }

    fn listen_with(&self, certificate: Vec<u8>, key: &[u8]) -> Result<HttpListener> {
        let config = self.server_config(certificate, key).map_err(|error| {
            Error::bad_config(format!("the endpoint's certificate cannot be used: {error}"))
        })?;
        let config = Arc::new(config);
        let session = Arc::new(move |mut client: &ClientSocket, answer: &mut Respond<'_>| {
            let mut tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
            answer(&mut Stream::new(&mut tls, &mut client))?;
            tls.send_close_notify();
            tls.complete_io(&mut client).map(drop)
        });
        HttpListener::bind(("address", "-listen"), (&self.host, self.port), session)
    }

    fn server_config(
        &self,
        certificate: Vec<u8>,
        key: &[u8],
    ) -> std::result::Result<ServerConfig, rustls::Error> {
        let mut provider = default_provider();
        provider.cipher_suites.retain(|suite| self.allows(suite));
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let key = provider.key_provider.load_private_key(key.clone_key())?;
        let certificate = CertifiedKey::new(vec![CertificateDer::from(certificate)], key);
        // Without a suite for it, TLS 1.2 is not spoken.
        let versions = match provider.cipher_suites.iter().all(|suite| suite.tls13().is_some()) {
            true => &ONLY_TLS13[..],
            false => DEFAULT_VERSIONS,
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certificate)));
        // A probe comes each 10 s and starts anew: sessions would only cost memory.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Returns whether clients may use a suite that goes with the certificate's key. As in Go, the suites of TLS 1.3 are
    /// not for choice.
    fn allows(&self, suite: &SupportedCipherSuite) -> bool {
        let name = suite.suite().as_str().unwrap_or_default();
        let is_wanted = self.suites.is_empty() || self.suites.iter().any(|wanted| wanted == name);
        suite.tls13().is_some() || !self.only_tls13 && name.contains("_ECDSA_") && is_wanted
    }
}

#[cfg(test)]
mod tests;
