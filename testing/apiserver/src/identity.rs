//! Authentication: client certificates, bearer tokens and impersonation.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, UnixTime},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use serde_json::{Value, json};

use crate::{
    ca::{Ca, random},
    http::Incoming,
    lock::lock,
    status::Status,
    subjects,
    user::User,
};

struct Token {
    user: User,
    expires: SystemTime,
}

/// The credentials that the server accepts.
pub(crate) struct Identities {
    verifier: Arc<dyn ClientCertVerifier>,
    tokens: Mutex<HashMap<String, Token>>,
}

impl Identities {
    pub(crate) fn new(ca: &Ca) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(ca.certificate().clone()).expect("our own CA certificate is readable");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .expect("one root is enough");
        Self { verifier, tokens: Mutex::default() }
    }

    /// Issues a token as a JWT, because clients read its times and its subject. `account` is the ServiceAccount, if
    /// any.
    pub(crate) fn issue(&self, user: User, valid_for: Duration, account: Option<&Value>) -> String {
        let (now, expires) = (SystemTime::now(), SystemTime::now() + valid_for);
        let seconds = |at: SystemTime| {
            at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
        };
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(&json!({"alg": "none", "typ": "JWT"}));
        let mut claims = json!({"sub": user.name, "exp": seconds(expires), "iat": seconds(now)});
        if let Some(metadata) = account.map(|account| &account["metadata"]) {
            claims["kubernetes.io"] = json!({
                "namespace": metadata["namespace"],
                "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
            });
        }
        let claims = part(&claims);
        let token = format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode(random::<24>()));
        lock(&self.tokens).insert(token.clone(), Token { user, expires });
        token
    }

    pub(crate) fn revoke(&self, token: &str) {
        lock(&self.tokens).remove(token);
    }

    /// Returns None without credentials. Invalid credentials fail even where none are needed, as on a real server.
    pub(crate) fn authenticate(
        &self,
        certificates: &[CertificateDer<'static>],
        request: &Incoming,
    ) -> Result<Option<User>, Status> {
        let user = match request.header("authorization") {
            Some(credentials) => {
                let token = credentials.strip_prefix("Bearer ").map(str::trim);
                Some(
                    token
                        .and_then(|token| self.by_token(token))
                        .ok_or_else(Status::unauthorized)?,
                )
            }
            None => self.by_certificate(certificates)?,
        };
        Ok(user.map(|user| impersonated(user, request)))
    }

    fn by_token(&self, token: &str) -> Option<User> {
        let tokens = lock(&self.tokens);
        let found = tokens.get(token).filter(|token| token.expires > SystemTime::now())?;
        Some(found.user.clone())
    }

    /// Verifies the certificate at each request, not at the handshake: a certificate that expires on an open connection
    /// then gets 401.
    fn by_certificate(
        &self,
        certificates: &[CertificateDer<'static>],
    ) -> Result<Option<User>, Status> {
        let Some((own, others)) = certificates.split_first() else { return Ok(None) };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Rounded up: the verifier counts whole seconds, but Go rejects a certificate from the exact instant of its
        // expiry.
        let now =
            UnixTime::since_unix_epoch(Duration::from_secs(now.as_millis().div_ceil(1000) as u64));
        self.verifier.verify_client_cert(own, others, now).map_err(|_| Status::unauthorized())?;
        subjects::user_of(own).map(Some).ok_or_else(Status::unauthorized)
    }
}

fn impersonated(user: User, request: &Incoming) -> User {
    match request.header("impersonate-user") {
        Some(name) => User::new(name, request.headers("impersonate-group")),
        None => user,
    }
}
