//! User of a context: its credentials and the impersonation headers.

use std::{collections::BTreeMap, fmt::Write, mem, result};

use rustls::{
    CertificateError, InconsistentKeys,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use zeroize::Zeroizing;

use super::document::NamedEntry;
use crate::{
    config::{Auth, KeyPair},
    error::Result,
};

/// Token or password, and client certificate. Programs are not run: `auth-provider` is refused, and
/// `exec` where client-go would run it (plugin/pkg/client/auth/exec/exec.go:320).
pub(super) fn credentials(user: &NamedEntry<'_>) -> Result<(Auth, Option<KeyPair>)> {
    let (auth, identity) = (auth(user)?, identity(user)?);
    let needed = auth == Auth::None && identity.is_none();
    for (field, named, refused) in [("auth-provider", "name", true), ("exec", "command", needed)] {
        if let Some(helper) = user.value(field).filter(|_| refused) {
            let name = helper.get(named).and_then(|name| name.as_str()).unwrap_or_default();
            let what = format!("gets credentials from {name:?} ({field}), which is not supported");
            return Err(user.fail(&what));
        }
    }
    Ok((auth, identity))
}

/// Checks that the credentials that the user names itself are there and fit.
pub(super) fn check(user: &NamedEntry<'_>) -> Result<()> {
    auth(user)?;
    identity(user).map(drop)
}

/// The impersonation headers.
pub(super) fn impersonation(user: &NamedEntry<'_>) -> Result<Vec<(String, String)>> {
    let value = |field| user.value(field).cloned().unwrap_or_default();
    let groups: Option<Vec<String>> = serde_json::from_value(value("as-groups"))
        .map_err(|_| user.wrong("as-groups", "a list of texts"))?;
    let extra: Option<BTreeMap<String, Option<Vec<String>>>> =
        serde_json::from_value(value("as-user-extra"))
            .map_err(|_| user.wrong("as-user-extra", "a map of lists of texts"))?;
    let (groups, extra) = (groups.unwrap_or_default(), extra.unwrap_or_default());
    let (name, uid) = (user.text("as")?, user.text("as-uid")?);
    if name.is_none() && (uid.is_some() || !groups.is_empty() || !extra.is_empty()) {
        return Err(user.fail("has as-uid, as-groups or as-user-extra without as"));
    }
    let named = [("Impersonate-User", name), ("Impersonate-Uid", uid)];
    let mut headers: Vec<(String, String)> = Vec::new();
    headers.extend(
        named.into_iter().filter_map(|(header, value)| Some((header.into(), value?.into()))),
    );
    headers.extend(groups.into_iter().map(|group| ("Impersonate-Group".into(), group)));
    for (key, values) in extra {
        let header = format!("Impersonate-Extra-{}", header_key(&key));
        headers.extend(values.into_iter().flatten().map(|value| (header.clone(), value)));
    }
    Ok(headers)
}

/// At most one of token and password (validation.go:339; rest/transport.go for a tokenFile).
fn auth(user: &NamedEntry<'_>) -> Result<Auth> {
    let (name, password) = (user.text("username")?, user.text("password")?);
    let basic = name.is_some() || password.is_some();
    match (user.text("token")?, user.text("tokenFile")?) {
        (None, None) if basic => {
            let [name, password] = [name, password].map(|text| text.unwrap_or_default().to_owned());
            Ok(Auth::Basic(name, password.into()))
        }
        (None, None) => Ok(Auth::None),
        _ if basic => Err(user.fail("has both a token and a user name or password")),
        (inline, Some(file)) => token_file(user, file, inline),
        (Some(token), None) => Ok(Auth::Token(token.to_owned().into())),
    }
}

/// The file wins over a token beside it, which serves while the file cannot be read
/// (transport/round_trippers.go, bearerAuthRoundTripper).
fn token_file(user: &NamedEntry<'_>, file: &str, inline: Option<&str>) -> Result<Auth> {
    let token = user.read("tokenFile", file).and_then(|bytes| {
        file_token(&bytes).ok_or_else(|| user.fail("has a tokenFile that holds no token"))
    });
    let inline = inline.map(|token| Zeroizing::new(token.to_owned()));
    token.or_else(|error| inline.ok_or(error)).map(Auth::Token)
}

/// The token in a file, without the white space around it.
pub(super) fn file_token(bytes: &[u8]) -> Option<Zeroizing<String>> {
    let token = str::from_utf8(bytes).ok()?.trim();
    (!token.is_empty()).then(|| token.to_owned().into())
}

/// A key without a certificate is ignored, as in client_config.go:289.
fn identity(user: &NamedEntry<'_>) -> Result<Option<KeyPair>> {
    let Some(mut certificate) = user.content("client-certificate")? else {
        return Ok(None);
    };
    let Some(key) = user.content("client-key")? else {
        return Err(user.fail("has a client-certificate without a client-key"));
    };
    check_pair(&certificate, &key).map_err(|what| user.fail(what))?;
    Ok(Some(KeyPair { certificate: mem::take(&mut certificate), key }))
}

/// Checks that `certificate`, a PEM chain with the leaf first, and the PEM `key` belong together.
///
/// # Errors
/// The problem, as the predicate of a sentence about their source.
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
