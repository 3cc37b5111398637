//! Token of an add-on's ServiceAccount: what it says of itself, and whether another one is needed. No I/O, no clock.

use std::time::{Duration, SystemTime};

use apiclient::time::seconds_time;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use kubeconfig::secret::Data;
use serde_json::Value;

use crate::{
    clocks::Clocks,
    conditions::Condition,
    hub::Hub,
    identity::{CLUSTER_NAME, said},
};

/// Key of the token in the Secret, and its file next to the kubeconfig.
pub(super) const TOKEN: &str = "token";
/// The end of the year 9999, in seconds since 1970: a later time is none.
const END_OF_TIME: u64 = 253_402_300_799;
/// A token is used until this part of its lifetime is left (ocm
/// `pkg/registration/register/token/token_validation.go`, RefreshThreshold).
const LEAST_LEFT: u32 = 5;

/// Claims of a token (a JWT, RFC 7519).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenClaims {
    issued: SystemTime,
    expires: SystemTime,
    /// uid of the ServiceAccount.
    uid: String,
}

impl TokenClaims {
    /// The claims of `token`; nobody here verifies its signature.
    ///
    /// # Errors
    /// The problem, as the predicate of a sentence about the token.
    pub(super) fn of(token: &[u8]) -> Result<Self, &'static str> {
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(_), Some(claims), Some(_), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("is no JWT");
        };
        // Go accepts padding.
        let unpadded = claims.split(|byte| *byte == b'=').next().unwrap_or_default();
        let claims = BASE64_URL_SAFE_NO_PAD.decode(unpadded).ok();
        let claims: Option<Value> = claims.and_then(|json| serde_json::from_slice(&json).ok());
        let claims = claims.ok_or("has claims that cannot be read")?;
        let time = |claim: &str| {
            let seconds = claims[claim].as_u64();
            let seconds = seconds.filter(|seconds| (1..=END_OF_TIME).contains(seconds))?;
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        };
        let uid = claims["kubernetes.io"]["serviceaccount"]["uid"].as_str();
        Ok(Self {
            issued: time("iat").ok_or("does not say when it was issued")?,
            expires: time("exp").ok_or("does not say when it expires")?,
            uid: uid.unwrap_or_default().to_owned(),
        })
    }

    /// The condition TokenRefreshed.
    pub(super) fn refreshed(&self) -> Condition {
        let message = format!("Addon token refreshed, expires at {}", seconds_time(self.expires));
        Condition::new("True", "AddonTokenRefreshed", message)
    }

    /// The least time of its use.
    pub(super) fn least_use(&self) -> Duration {
        self.expires.duration_since(self.issued).unwrap_or_default() / 2
    }

    /// The time until the next one; zero when it is due.
    fn due_in(&self, clocks: Clocks) -> Duration {
        let life = self.expires.duration_since(self.issued).unwrap_or_default();
        clocks.until_due(self.expires - life / LEAST_LEFT, life)
    }
}

/// What the Secret of a token needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenNeed {
    /// Nothing for this long, with the token in it.
    Nothing(Duration, TokenClaims),
    /// The token is good, and what is next to it is not.
    Repair,
    /// Another token, and why: the predicate of a sentence about the Secret.
    Token(String),
}

/// A token that is not replaced for so long, whatever a clock or the hub says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeastUse {
    pub(super) claims: TokenClaims,
    pub(super) left: Duration,
}

/// The need of a Secret with this content, for the ServiceAccount of this uid on `hub`.
pub(super) fn need(
    data: &Data,
    least: Option<&LeastUse>,
    (uid, cluster): (&str, &str),
    hub: &Hub,
    clocks: Clocks,
) -> TokenNeed {
    let Some(token) = data.get(TOKEN).filter(|token| !token.is_empty()) else {
        return TokenNeed::Token("has no token".into());
    };
    let claims = match TokenClaims::of(token) {
        Ok(claims) => claims,
        Err(what) => return TokenNeed::Token(format!("has a token that {what}")),
    };
    let least = least.filter(|least| least.claims == claims).map(|least| least.left);
    if claims.uid != uid && least.is_none() {
        return TokenNeed::Token("has a token of another ServiceAccount".into());
    }
    let due_in = claims.due_in(clocks).max(least.unwrap_or_default());
    if due_in.is_zero() {
        return TokenNeed::Token("has a token that is due for renewal".into());
    }
    let known = Hub::of_secret("", data).ok();
    if let Some(word) = known.as_ref().and_then(|known| known.differs_from(hub)) {
        return TokenNeed::Token(format!("is for another hub: the {word} differs"));
    }
    let kubeconfig = data.get("kubeconfig").map(|text| &text[..]);
    let is_whole = kubeconfig == Some(hub.token_kubeconfig(TOKEN).as_bytes());
    match is_whole && said(data, CLUSTER_NAME, cluster) {
        true => TokenNeed::Nothing(due_in, claims),
        false => TokenNeed::Repair,
    }
}

#[cfg(test)]
mod tests;
