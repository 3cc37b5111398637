//! User of a context: its credentials and the impersonation headers.

use std::{fmt::Write, mem, result};

use rustls::{
    CertificateError, InconsistentKeys,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use zeroize::Zeroizing;

use crate::{
    config::{Auth, KeyPair},
    document::NamedEntry,
    error::Result,
    types::AuthInfo,
};

/// Token or password, and client certificate. Programs are not run: `auth-provider` is refused, and
/// `exec` where client-go would run it (plugin/pkg/client/auth/exec/exec.go:320).
pub(crate) fn credentials(user: &NamedEntry<'_, AuthInfo>) -> Result<(Auth, Option<KeyPair>)> {
    let (auth, identity) = (auth(user)?, identity(user)?);
    let AuthInfo { auth_provider, exec, .. } = &user.value;
    let needed = auth == Auth::None && identity.is_none();
    for (field, helper, name, refused) in
        [("auth-provider", auth_provider, "name", true), ("exec", exec, "command", needed)]
    {
        if refused && !helper.is_null() {
            let name = helper[name].as_str().unwrap_or_default();
            let what = format!("gets credentials from {name:?} ({field}), which is not supported");
            return Err(user.fail(&what));
        }
    }
    Ok((auth, identity))
}

/// Checks that the credentials that the user names itself are there and fit.
pub(crate) fn check(user: &NamedEntry<'_, AuthInfo>) -> Result<()> {
    auth(user)?;
    identity(user).map(drop)
}

pub(crate) fn impersonation(user: &NamedEntry<'_, AuthInfo>) -> Result<Vec<(String, String)>> {
    let AuthInfo { impersonate, impersonate_uid: uid, .. } = &user.value;
    let AuthInfo { impersonate_groups: groups, impersonate_user_extra: extra, .. } = &user.value;
    if impersonate.is_empty() && !(uid.is_empty() && groups.is_empty() && extra.is_empty()) {
        return Err(user.fail("has as-uid, as-groups or as-user-extra without as"));
    }
    let named = [("Impersonate-User", impersonate), ("Impersonate-Uid", uid)];
    let named = named.into_iter().filter(|(_, value)| !value.is_empty());
    let groups = groups.iter().map(|group| ("Impersonate-Group", group));
    let mut headers: Vec<_> =
        named.chain(groups).map(|(header, value)| (header.to_owned(), value.clone())).collect();
    for (key, values) in extra {
        let header = format!("Impersonate-Extra-{}", header_key(key));
        headers.extend(values.iter().flatten().map(|value| (header.clone(), value.clone())));
    }
    Ok(headers)
}

/// At most one of token and password (validation.go:339; rest/transport.go for a tokenFile).
fn auth(user: &NamedEntry<'_, AuthInfo>) -> Result<Auth> {
    let AuthInfo { username, password, token, token_file, .. } = &user.value;
    let basic = !(username.is_empty() && password.is_empty());
    match (&**token, &**token_file) {
        ("", "") if basic => Ok(Auth::Basic(username.clone(), password.clone().into())),
        ("", "") => Ok(Auth::None),
        _ if basic => Err(user.fail("has both a token and a user name or password")),
        (token, "") => Ok(Auth::Token(token.to_owned().into())),
        // The file wins over a token beside it, which serves while the file cannot be read
        // (transport/round_trippers.go, bearerAuthRoundTripper).
        (token, file) => {
            let read = user.read("tokenFile", file).and_then(|bytes| {
                file_token(&bytes).ok_or_else(|| user.fail("has a tokenFile that holds no token"))
            });
            let inline = (!token.is_empty()).then(|| token.to_owned().into());
            read.or_else(|error| inline.ok_or(error)).map(Auth::Token)
        }
    }
}

pub(crate) fn file_token(bytes: &[u8]) -> Option<Zeroizing<String>> {
    let token = str::from_utf8(bytes).ok()?.trim();
    (!token.is_empty()).then(|| token.to_owned().into())
}

/// A key without a certificate is ignored, as in client_config.go:289.
fn identity(user: &NamedEntry<'_, AuthInfo>) -> Result<Option<KeyPair>> {
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

/// Checks that `certificate`, a PEM chain with the leaf first, and the PEM `key` belong together. The error is a
/// predicate about their source.
pub fn check_pair(certificate: &[u8], key: &[u8]) -> result::Result<(), &'static str> {
    let chain: result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or("has a client-certificate that holds no certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        let encrypted = key.windows(9).any(|part| part == b"ENCRYPTED");
        if encrypted {
            "has a client-key that is encrypted"
        } else {
            "has a client-key that holds no private key"
        }
    })?;
    let key = ring::default_provider().key_provider.load_private_key(key).map_err(
        |_| "has a client-key that is not RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519",
    )?;
    match CertifiedKey::new(chain, key).keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err("has a client-certificate and a client-key that do not belong together")
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::BadEncoding)) => {
            Err("has a client-certificate that cannot be read")
        }
        // A certificate that webpki does not know, such as X.509 v1, is left to the connection.
        _ => Ok(()),
    }
}

/// `%XX` for characters that a header's name must not have (transport/round_trippers.go, headerKeyEscape).
fn header_key(key: &str) -> String {
    key.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => escaped.push(byte.into()),
            _ if b"!#$&'*+-.^_`|~".contains(&byte) => escaped.push(byte.into()),
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
        escaped
    })
}
