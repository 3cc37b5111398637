//! User of a context: its credentials.

use std::{mem, result};

use rustls::{
    CertificateError, InconsistentKeys,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use zeroize::Zeroizing;

use crate::{
    config::{Auth, KeyPair, Result},
    document::{AuthInfo, Entry},
};

/// Token and client certificate. `exec` is an error where client-go would run the program
/// (plugin/pkg/client/auth/exec/exec.go:320).
pub(crate) fn credentials(user: &Entry<'_, AuthInfo>) -> Result<(Auth, Option<KeyPair>)> {
    let (auth, identity) = (auth(user)?, identity(user)?);
    if auth == Auth::None
        && identity.is_none()
        && let Some(exec) = user.value.other.get("exec")
    {
        let name = exec["command"].as_str().unwrap_or_default();
        let what = format!("gets credentials from {name:?} (exec), which is not supported");
        return Err(user.fail(&what));
    }
    Ok((auth, identity))
}

/// Ignoring one of these fields would send requests as another user.
const UNSUPPORTED: [&str; 7] =
    ["as", "as-uid", "as-groups", "as-user-extra", "auth-provider", "username", "password"];

pub(crate) fn check_supported(user: &Entry<'_, AuthInfo>) -> Result<()> {
    match UNSUPPORTED.iter().find(|field| user.value.other.contains_key(**field)) {
        Some(field) => Err(user.fail(&format!("has {field}, which is not supported"))),
        None => Ok(()),
    }
}

/// Checks that the token, certificate and key that the user names exist and match.
pub(crate) fn check(user: &Entry<'_, AuthInfo>) -> Result<()> {
    auth(user)?;
    identity(user).map(drop)
}

/// A token file takes precedence over an inline token, which is the fallback if the file cannot be read
/// (transport/round_trippers.go, bearerAuthRoundTripper).
fn auth(user: &Entry<'_, AuthInfo>) -> Result<Auth> {
    let AuthInfo { token, token_file, .. } = &user.value;
    let inline = || (!token.is_empty()).then(|| Auth::Token(token.clone().into()));
    if token_file.is_empty() {
        return Ok(inline().unwrap_or(Auth::None));
    }
    let read = user.read("tokenFile", token_file).and_then(|bytes| {
        file_token(&bytes).ok_or_else(|| user.fail("has a tokenFile that holds no token"))
    });
    read.map(Auth::Token).or_else(|error| inline().ok_or(error))
}

pub(crate) fn file_token(bytes: &[u8]) -> Option<Zeroizing<String>> {
    let token = str::from_utf8(bytes).ok()?.trim();
    (!token.is_empty()).then(|| token.to_owned().into())
}

/// A key without a certificate is ignored, as in client_config.go:289.
fn identity(user: &Entry<'_, AuthInfo>) -> Result<Option<KeyPair>> {
    let info = &user.value;
    let certificate = user.content(
        "client-certificate",
        &info.client_certificate,
        &info.client_certificate_data,
    )?;
    let Some(mut certificate) = certificate else { return Ok(None) };
    let key = user.content("client-key", &info.client_key, &info.client_key_data)?;
    let key = key.ok_or_else(|| user.fail("has a client-certificate without a client-key"))?;
    check_pair(&certificate, &key).map_err(|what| user.fail(what))?;
    Ok(Some(KeyPair { certificate: mem::take(&mut certificate), key }))
}

/// Checks that a certificate and a key match, see [`certified_key`].
pub fn check_pair(certificate: &[u8], key: &[u8]) -> result::Result<(), &'static str> {
    certified_key(certificate, key).map(drop)
}

/// Combines `certificate`, a PEM chain with the leaf first, and the PEM `key`. The error is a predicate about their
/// source.
pub fn certified_key(certificate: &[u8], key: &[u8]) -> result::Result<CertifiedKey, &'static str> {
    let chain: result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or("has a client-certificate that holds no certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| "has a client-key that holds no private key, or an encrypted one")?;
    let key = ring::default_provider().key_provider.load_private_key(key).map_err(
        |_| "has a client-key that is not RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519",
    )?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err("has a client-certificate and a client-key that do not belong together")
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::BadEncoding)) => {
            Err("has a client-certificate that cannot be read")
        }
        // webpki cannot parse every certificate that servers accept, such as X.509 v1: the server decides.
        _ => Ok(pair),
    }
}
