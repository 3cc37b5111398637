//! Token of an add-on's ServiceAccount on the hub: what it says of itself, whether another one is needed, and how it is
//! obtained.

use std::time::{Duration, Instant, SystemTime};

use apiclient::{
    error::{Error, Result},
    log_object,
    resource::{Resource, Target},
    stop::Stop,
    time::seconds_time,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use kubeconfig::secret::{self, Data};
use log::Level;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{keeper::Step, service_account};
use crate::{
    certificate::{pacing::Pacing, store::SecretValues},
    clocks::Clocks,
    conditions::Condition,
    hub::Hub,
    identity::{CLUSTER_NAME, said},
};

static SERVICE_ACCOUNTS: Resource = Resource::v1("", "serviceaccounts", "ServiceAccount");
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
    /// The claims of `token`, if they can be read; the hub alone can verify its signature.
    pub(super) fn of(token: &[u8]) -> Option<Self> {
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
        clocks.until_due(self.expires - life / LEAST_LEFT)
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

/// The need of a Secret with this content, for the ServiceAccount of this uid on `hub`. A token with the claims of `least`
/// is not replaced for so long, whatever a clock or the hub says of it.
pub(super) fn need(
    data: &Data,
    least: Option<(&TokenClaims, Duration)>,
    (uid, cluster): (&str, &str),
    hub: &Hub,
    clocks: Clocks,
) -> TokenNeed {
    let Some(token) = data.get(TOKEN).filter(|token| !token.is_empty()) else {
        return TokenNeed::Token("has no token".into());
    };
    let Some(claims) = TokenClaims::of(token) else {
        return TokenNeed::Token("has a token that cannot be read".into());
    };
    let least = least.filter(|(of, _)| **of == claims).map(|(_, left)| left);
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

/// The last token of this process.
struct ObtainedToken {
    claims: TokenClaims,
    /// Until it is in the Secret: another attempt to save it must not cost another token.
    unsaved: Option<Zeroizing<Vec<u8>>>,
    /// uid of the ServiceAccount that it was requested for; the hub may not have said yet that there is another one.
    uid: String,
    /// The end of its least use.
    until: Instant,
}

impl ObtainedToken {
    fn new(token: &Zeroizing<Vec<u8>>, uid: &str, now: Instant) -> Option<Self> {
        let claims = TokenClaims::of(token)?;
        let until = now + claims.least_use();
        Some(Self { claims, unsaved: Some(token.clone()), uid: uid.to_owned(), until })
    }
}

/// Obtains the token of one registration.
#[derive(Default)]
pub(super) struct TokenDriver {
    pacing: Pacing,
    obtained: Option<ObtainedToken>,
    /// What was logged last that the token waits for.
    waits: Option<&'static str>,
    refreshed: Option<Condition>,
}

impl TokenDriver {
    /// The condition about the token, once there is something to say.
    pub(super) fn condition(&self) -> Option<Condition> {
        self.refreshed.clone()
    }

    /// Does what is due for a token of this lifetime and account; returns when to come again if nothing changes.
    ///
    /// # Errors
    /// As the hub and the cluster of the Secret say.
    pub(super) fn sync(
        &mut self,
        lifetime: u32,
        account: &std::result::Result<String, &'static str>,
        mut step: Step<'_>,
    ) -> Result<Instant> {
        let (target, now) = (step.name.target(), Instant::now());
        step.store_name()?;
        let uid = match account {
            Ok(uid) => uid,
            &Err(waits) => {
                let is_new = self.waits.replace(waits) != Some(waits);
                let level = if is_new { Level::Info } else { Level::Debug };
                log_object!(level, target; "no token for the add-on: {waits}");
                return Ok(now + Stop::SLICE);
            }
        };
        self.waits = None;
        let why = match self.need(uid, &step, now) {
            TokenNeed::Nothing(left, claims) => {
                self.refreshed = Some(claims.refreshed());
                return Ok(now + left);
            }
            TokenNeed::Repair => None,
            TokenNeed::Token(why) => Some(why),
        };
        // The last token was used for a while: nobody has undone a write.
        let is_regular = why.is_some() && self.obtained.as_ref().is_none_or(|it| now >= it.until);
        if let Some(until) = self.pacing.next_write(now) {
            return Ok(until);
        }
        let kubeconfig = step.context.session.hub.token_kubeconfig(TOKEN);
        let mut values = SecretValues::from([("kubeconfig", kubeconfig.into_bytes().into())]);
        if let Some(why) = why {
            values.insert(TOKEN, self.obtain(&why, (lifetime, uid), &step)?);
        }
        let is_obtained = values.contains_key(TOKEN);
        step.save(values, &["tls.crt", "tls.key"])?;
        self.pacing.saved(is_regular, now);
        if is_obtained {
            self.obtained.iter_mut().for_each(|obtained| obtained.unsaved = None);
            log_object!(Level::Info, target; "the token of an add-on was saved");
        }
        Ok(now)
    }

    fn need(&self, uid: &str, step: &Step<'_>, now: Instant) -> TokenNeed {
        let session = step.context.session;
        let data = step.secret.seen.as_ref().and_then(|object| secret::data(object).ok());
        let least = self.last(uid, now).map(|it| (&it.claims, it.until - now));
        let (names, clocks) = ((uid, &*session.names.cluster), step.context.agent.clocks());
        need(&data.unwrap_or_default(), least, names, &session.hub, clocks)
    }

    /// The last token, if it is for the ServiceAccount of this uid, for its least use.
    fn last(&self, uid: &str, now: Instant) -> Option<&ObtainedToken> {
        self.obtained.as_ref().filter(|it| it.uid == uid && now < it.until)
    }

    /// The token that is not saved yet, or else a new one, as the Secret needs one for this reason.
    fn obtain(
        &mut self,
        why: &str,
        (lifetime, uid): (u32, &str),
        step: &Step<'_>,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let now = Instant::now();
        if let Some(token) = self.last(uid, now).and_then(|it| it.unsaved.clone()) {
            return Ok(token);
        }
        let name = step.name.sentence_name();
        log_object!(Level::Info, step.name.target(); "requesting a token: {name} {why}");
        let token = request(lifetime, step).inspect_err(|error| self.fail(error))?;
        self.take(&token, uid, now)?;
        Ok(token)
    }

    /// Takes the hub's token. One that cannot be read delays the next, as a write that somebody undoes does: each is valid
    /// for a year.
    fn take(&mut self, token: &Zeroizing<Vec<u8>>, uid: &str, now: Instant) -> Result<()> {
        self.obtained = ObtainedToken::new(token, uid, now);
        if self.obtained.is_some() {
            return Ok(());
        }
        self.pacing.saved(false, now);
        let error = Error::bad_config("the hub returned no token that can be read");
        self.fail(&error);
        Err(error)
    }

    fn fail(&mut self, error: &Error) {
        let message = format!("Failed to create token: {error}");
        self.refreshed = Some(Condition::new("False", "TokenCreationFailed", message));
    }
}

/// Requests a token of the add-on's ServiceAccount; the hub may return none.
fn request(lifetime: u32, step: &Step<'_>) -> Result<Zeroizing<Vec<u8>>> {
    let session = step.context.session;
    let account = service_account(step.addon);
    let object = SERVICE_ACCOUNTS.object(&session.names.cluster, &account);
    let target = Target { subresource: Some("token"), ..object };
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": lifetime},
    });
    let answer = session.client.create(&target, &request)?;
    Ok(answer["status"]["token"].as_str().unwrap_or_default().as_bytes().to_vec().into())
}

#[cfg(test)]
mod tests;
