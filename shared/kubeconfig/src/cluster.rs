//! Cluster of a context: server, proxy and trust.

use std::mem;

use http::Uri;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use zeroize::Zeroizing;

use crate::{
    config::{Result, Trust},
    document::{Cluster, Entry},
};

pub(crate) fn server(cluster: &Entry<'_, Cluster>, master: Option<&str>) -> Result<String> {
    // The URL itself may hold a password.
    const BAD: &str = "is not an http or https URL of a host, without a user name";
    match (master, &*cluster.value.server) {
        (Some(url), _) => server_url(url).ok_or_else(|| format!("-master {BAD}").into()),
        (None, "") => Err(cluster.fail("has no server")),
        (None, url) => {
            server_url(url).ok_or_else(|| cluster.fail(&format!("has a server that {BAD}")))
        }
    }
}

/// The URL without query, fragment and trailing slash. The default scheme is `http`, even with a CA, as in client-go
/// (client_config.go:220, rest/config.go:591).
pub fn server_url(text: &str) -> Option<String> {
    let full = text.contains("://");
    let uri: Uri = if full { text.parse() } else { format!("http://{text}").parse() }.ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let host = uri.host().filter(|host| !host.is_empty())?;
    let authority = uri.authority()?.as_str().trim_end_matches(':');
    let path = uri.path().trim_end_matches('/');
    // With a user name, `host` is not a prefix; `port_u16` is `None` if the port is not a number.
    let port = authority.strip_prefix(host)?;
    let sound = (port.is_empty() || uri.port_u16().is_some()) && (full || path.is_empty());
    (sound && matches!(&*scheme, "http" | "https")).then(|| format!("{scheme}://{authority}{path}"))
}

pub(crate) fn proxy(cluster: &Entry<'_, Cluster>) -> Result<Option<String>> {
    let url = &*cluster.value.proxy_url;
    if url.is_empty() {
        return Ok(None);
    }
    let uri = url.parse().ok().filter(|uri: &Uri| uri.host().is_some());
    let scheme = uri.and_then(|uri| uri.scheme_str().map(str::to_ascii_lowercase));
    match scheme.as_deref() {
        Some(scheme @ ("http" | "https" | "socks5")) => {
            Ok(Some(format!("{scheme}{}", &url[scheme.len()..])))
        }
        _ => Err(cluster.fail("has a proxy-url that is not an http, https or socks5 URL")),
    }
}

pub(crate) fn authority(cluster: &Entry<'_, Cluster>) -> Result<Option<Zeroizing<Vec<u8>>>> {
    let Cluster { certificate_authority, certificate_authority_data, .. } = &cluster.value;
    cluster.content("certificate-authority", certificate_authority, certificate_authority_data)
}

pub(crate) fn trust(cluster: &Entry<'_, Cluster>) -> Result<Trust> {
    let insecure = cluster.value.insecure_skip_tls_verify;
    match authority(cluster)? {
        Some(_) if insecure => {
            Err(cluster.fail("has both insecure-skip-tls-verify and a certificate-authority"))
        }
        Some(pem) => bundle(pem)
            .ok_or_else(|| cluster.fail("has a certificate-authority that holds no certificate")),
        None if insecure => Ok(Trust::Anything),
        None => Ok(Trust::System),
    }
}

/// As in Go, one good certificate is enough.
pub(crate) fn bundle(mut pem: Zeroizing<Vec<u8>>) -> Option<Trust> {
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(|item| item.ok());
    let (good, _) = RootCertStore::empty().add_parsable_certificates(certificates);
    (good > 0).then(|| Trust::Bundle(mem::take(&mut pem)))
}
