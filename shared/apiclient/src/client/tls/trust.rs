//! Trust in servers: by an authority as usual, and by Go's additional rules.

use std::{fs, sync::Arc};

use rustls::{
    DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use kubeconfig::config::Trust;

use crate::{
    certificate,
    error::{Error, Result},
};

/// The verifier of a server's certificate.
pub(super) fn verifier(
    trust: &Trust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>> {
    let bundle = match trust {
        Trust::Anything => None,
        Trust::Bundle(pem) => Some(certificates(pem, "the kubeconfig's CA bundle")?),
        Trust::System => Some(system_roots()?),
    };
    Ok(Arc::new(Verifier { bundle, provider: provider.clone() }))
}

/// The usable certificates of a bundle; `origin` is its source, for an error.
fn certificates(pem: &[u8], origin: &str) -> Result<Vec<CertificateDer<'static>>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .flatten()
        .filter(|der| ParsedCertificate::try_from(der).is_ok())
        .collect();
    if all.is_empty() {
        return Err(Error::bad_config(format!("{origin} holds no usable certificate")));
    }
    Ok(all)
}

/// Verifies by an authority and, beyond that, as Go does, accepts a server whose own certificate is in the
/// bundle (crypto/x509 Certificate.Verify: `opts.Roots.contains`): a named certificate of OpenShift, or a
/// pinned self-made one.
#[derive(Debug)]
struct Verifier {
    /// `None` trusts everybody (`insecure-skip-tls-verify`).
    bundle: Option<Vec<CertificateDer<'static>>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

/// The authorities of `bundle`. webpki asks of an anchor neither what it may do nor until when, Go does both
/// (crypto/x509 Certificate.isValid and CheckSignatureFrom).
fn authorities(bundle: &[CertificateDer<'static>], now: UnixTime) -> RootCertStore {
    let mut store = RootCertStore::empty();
    for der in bundle.iter().filter(|der| certificate::is_authority(der, now.as_secs())) {
        // Skip anchors that rustls cannot use; the others still serve.
        let _ = store.add(der.clone());
    }
    store
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(bundle) = &self.bundle else {
            return Ok(ServerCertVerified::assertion());
        };
        let (parsed, roots) = (ParsedCertificate::try_from(server)?, authorities(bundle, now));
        let signers = self.algorithms().all;
        match verify_server_cert_signed_by_trust_anchor(&parsed, &roots, between, now, signers) {
            Err(_) if bundle.contains(server) => certificate::may_serve(server, now.as_secs())
                .map_err(rustls::Error::InvalidCertificate)?,
            verdict => verdict?,
        }
        verify_server_name(&parsed, name)?;
        Ok(ServerCertVerified::assertion())
    }

    /// The peer must hold the key of its certificate in any case.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, server, signature, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, server, signature, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

/// Go's places of the system's roots (crypto/x509/root_linux.go), after SSL_CERT_FILE.
const SYSTEM_ROOTS: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

fn system_roots() -> Result<Vec<CertificateDer<'static>>> {
    let named = std::env::var("SSL_CERT_FILE").ok().filter(|file| !file.is_empty());
    if let Some(file) = named {
        let pem = fs::read(&file)
            .map_err(|e| Error::bad_config(format!("SSL_CERT_FILE {file} cannot be read: {e}")))?;
        return certificates(&pem, &format!("SSL_CERT_FILE {file}"));
    }
    for file in SYSTEM_ROOTS {
        if let Ok(pem) = fs::read(file) {
            return certificates(&pem, file);
        }
    }
    Err(Error::bad_config(
        "the kubeconfig names no certificate authority, and this image has no system roots: \
         put certificate-authority-data into the kubeconfig or mount a bundle and set SSL_CERT_FILE",
    ))
}
