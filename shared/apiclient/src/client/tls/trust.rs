//! Verification of servers: by an authority, or because the CA bundle contains the server's own certificate.

use std::{fs, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use kubeconfig::config::Trust;

use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct Verifier {
    /// `None` accepts any server (`insecure-skip-tls-verify`).
    authorities: Option<Arc<WebPkiServerVerifier>>,
    bundle: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    pub(super) fn new(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let provider = provider.clone();
        let (pem, origin) = match trust {
            Trust::Anything => return Ok(Self { authorities: None, bundle: Vec::new(), provider }),
            Trust::Bundle(pem) => (pem.clone(), "the kubeconfig's CA bundle".to_owned()),
            Trust::System => system_roots()?,
        };
        let bundle: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(bundle.iter().cloned());
        let webpki =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let unusable = |_| Error::bad_config(format!("{origin} holds no usable certificate"));
        Ok(Self { authorities: Some(webpki.map_err(unusable)?), bundle, provider })
    }
}

impl ServerCertVerifier for Verifier {
    /// Verifies by an authority. Like Go (crypto/x509 Certificate.Verify, `opts.Roots.contains`), also accepts a server
    /// whose own certificate is in the bundle: a named certificate of OpenShift, or a self-signed one. By then, webpki
    /// has checked its validity period.
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        match authorities.verify_server_cert(server, between, name, &[], now) {
            // `Other`: the server presents the certificate of an authority.
            Err(TlsError::InvalidCertificate(
                CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
                | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
                | CertificateError::Other(_),
            )) if self.bundle.contains(server) => {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    /// Checked even if any server is accepted: the peer must hold its certificate's key.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, server, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, server, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Where Go looks for the system's roots (crypto/x509/root_linux.go) without SSL_CERT_FILE.
const SYSTEM_ROOTS: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The system's roots in PEM, and where they are.
fn system_roots() -> Result<(Vec<u8>, String)> {
    let named = std::env::var("SSL_CERT_FILE").ok().filter(|file| !file.is_empty());
    if let Some(file) = named {
        let origin = format!("SSL_CERT_FILE {file}");
        return match fs::read(&file) {
            Ok(pem) => Ok((pem, origin)),
            Err(error) => Err(Error::bad_config(format!("{origin} cannot be read: {error}"))),
        };
    }
    let found = SYSTEM_ROOTS.iter().find_map(|file| Some((fs::read(file).ok()?, (*file).into())));
    found.ok_or_else(|| {
        Error::bad_config(
            "the kubeconfig names no certificate authority, and this image has no system roots: \
             put certificate-authority-data into the kubeconfig or mount a bundle and set SSL_CERT_FILE",
        )
    })
}
