//! Token of an add-on's ServiceAccount on the hub.

use std::time::{Duration, Instant, SystemTime};

use apiclient::{
    error::{Error, Result},
    log_object,
    resource::{Resource, Target},
    time::seconds_time,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use kubeconfig::secret::{self, Data};
use log::Level;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::context::{SecretContext, TOKEN};
use crate::{
    certificate::io::{SecretValues, value},
    clocks::Clocks,
    conditions::Condition,
    identity::{CLUSTER_NAME, said},
    pacing::{CredentialPace, Rest},
};

static SERVICE_ACCOUNTS: Resource = Resource::v1("", "serviceaccounts", "ServiceAccount");
/// The end of the year 9999, in seconds since 1970: a later time is invalid.
const END_OF_TIME: u64 = 253_402_300_799;
/// Maximum length of a token: an unsaved one costs memory.
const MAX_TOKEN: usize = 64 << 10;
/// A token is due when its lifetime divided by this is left (ocm
/// `pkg/registration/register/token/token_validation.go`, RefreshThreshold).
const LEAST_LEFT: u32 = 5;
/// The rest after a lost answer: the hub may have created a token, which is valid for a year.
const REST_LOST: Rest = (Duration::from_secs(1), Duration::from_secs(300));
const DUE: &str = "has a token that is due for renewal";

/// Claims of a token (a JWT, RFC 7519).
#[derive(Clone, Debug, PartialEq, Eq)]
struct TokenClaims {
    issued: SystemTime,
    expires: SystemTime,
    /// uid of the ServiceAccount.
    uid: String,
}

impl TokenClaims {
    /// Parses the claims of `token`; only the hub can verify its signature.
    fn of(token: &[u8]) -> Option<Self> {
        let parts: Vec<_> = str::from_utf8(token).ok()?.split('.').collect();
        let [_, claims, _] = parts[..] else { return None };
        // Go accepts padding.
        let claims = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        let time = |claim: &str| {
            let seconds = claims[claim].as_u64();
            let seconds = seconds.filter(|seconds| (1..=END_OF_TIME).contains(seconds))?;
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        };
        let uid = claims["kubernetes.io"]["serviceaccount"]["uid"].as_str();
        let uid = uid.unwrap_or_default().to_owned();
        Some(Self { issued: time("iat")?, expires: time("exp")?, uid })
    }

    fn life(&self) -> Duration {
        self.expires.duration_since(self.issued).unwrap_or_default()
    }

    fn refreshed(&self) -> Condition {
        let message = format!("Addon token refreshed, expires at {}", seconds_time(self.expires));
        Condition::new("True", "AddonTokenRefreshed", message)
    }
}

/// Returns the claims of the token in a Secret with this content, and the time until it is due. The error says why the
/// ServiceAccount of this uid needs another token, as the predicate of a sentence about the Secret.
fn usable(
    data: &Data,
    uid: &str,
    clocks: Clocks,
) -> std::result::Result<(TokenClaims, Duration), &'static str> {
    let token = data.get(TOKEN).filter(|token| !token.is_empty()).ok_or("has no token")?;
    let claims = TokenClaims::of(token).ok_or("has a token that cannot be read")?;
    if claims.uid != uid {
        return Err("has a token of another ServiceAccount");
    }
    let due_in = clocks.until_due(claims.expires - claims.life() / LEAST_LEFT);
    if due_in.is_zero() { Err(DUE) } else { Ok((claims, due_in)) }
}

#[derive(Default)]
pub(super) struct TokenDriver {
    pace: CredentialPace,
    /// A token that is not in the Secret yet: another attempt to save it must not create another one, valid for a year.
    unsaved: Option<Zeroizing<Vec<u8>>>,
    /// When half of the last token's lifetime is over. A token that is due before is due by a wrong clock.
    used_until: Option<Instant>,
    /// The condition about the token, once known.
    pub(super) refreshed: Option<Condition>,
}

impl TokenDriver {
    /// Takes the step that is due for a token with this lifetime, for the ServiceAccount with this name and uid.
    pub(super) fn sync(
        &mut self,
        lifetime: u32,
        (account, uid): (String, Option<&str>),
        secret: Option<&Value>,
        context: &SecretContext<'_>,
    ) -> Result<Instant> {
        let waits = || Error::bad_config("the hub has not made its ServiceAccount yet");
        let (uid, now) = (uid.ok_or_else(waits)?, Instant::now());
        let data = secret.and_then(|secret| secret::data(secret).ok()).unwrap_or_default();
        let kubeconfig = context.session.hub.token_kubeconfig(TOKEN).into_bytes();
        let why = match usable(&data, uid, context.agent.clocks()) {
            Ok((claims, due_in)) => {
                (self.refreshed, self.unsaved) = (Some(claims.refreshed()), None);
                let has_kubeconfig = data.get("kubeconfig").is_some_and(|it| **it == kubeconfig);
                if has_kubeconfig && said(&data, CLUSTER_NAME, &context.session.names.cluster) {
                    return Ok(now + due_in);
                }
                None
            }
            Err(why) => Some(why),
        };
        let rest = self.pace.resting(now).filter(|_| why.is_some());
        if let Some(until) = self.pace.next_write(now).max(rest) {
            return Ok(until);
        }
        let removed = ["tls.crt", "tls.key"].map(|key| (key.to_owned(), None));
        let mut values = SecretValues::from(removed);
        values.insert("kubeconfig".to_owned(), value(kubeconfig));
        if let Some(why) = why {
            if self.unsaved.is_none() {
                let name = context.name.sentence_name();
                log_object!(Level::Info, context.name.target(); "requesting a token: {name} {why}");
                let token = request(lifetime, &account, context);
                self.unsaved = Some(token.inspect_err(|error| self.not_created(error, now))?);
            }
            values.insert(TOKEN.to_owned(), self.unsaved.clone());
        }
        context.save(secret, values)?;
        // Regular unless somebody undid the last write, or the token is due by a wrong clock.
        let is_regular = why == Some(DUE) && self.used_until.is_none_or(|until| now >= until);
        self.pace.saved(is_regular, now);
        if let Some(token) = self.unsaved.take() {
            let life = TokenClaims::of(&token).map(|claims| claims.life()).unwrap_or_default();
            self.used_until = Some(now + life / 2);
            log_object!(Level::Info, context.name.target(); "the token of an add-on was saved");
        }
        Ok(now)
    }

    fn not_created(&mut self, error: &Error, now: Instant) {
        // Unless the hub refused, it may have created a token.
        let is_refused = matches!(
            error,
            Error::Unauthorized(_) | Error::Forbidden(_) | Error::NotFound(_) | Error::NotServed(_)
        );
        if !is_refused {
            self.pace.ended(REST_LOST, now, fastrand::f64());
        }
        let message = format!("Failed to create token: {error}");
        self.refreshed = Some(Condition::new("False", "TokenCreationFailed", message));
    }
}

fn request(
    lifetime: u32,
    account: &str,
    context: &SecretContext<'_>,
) -> Result<Zeroizing<Vec<u8>>> {
    let object = SERVICE_ACCOUNTS.object(&context.session.names.cluster, account);
    let target = Target { subresource: Some("token"), ..object };
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": lifetime},
    });
    let answer = context.session.client.create(&target, &request)?;
    let token = answer["status"]["token"].as_str().unwrap_or_default();
    let token = Zeroizing::new(token.as_bytes().to_vec());
    match TokenClaims::of(&token).filter(|_| token.len() <= MAX_TOKEN) {
        Some(_) => Ok(token),
        None => Err(Error::bad_config("the hub returned no token that can be read")),
    }
}

#[cfg(test)]
mod tests;
