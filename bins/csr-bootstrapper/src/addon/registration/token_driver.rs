//! Token of an add-on's ServiceAccount on the hub: requested, saved and refreshed.

use std::time::{Duration, Instant};

use apiclient::{
    error::{Error, Result},
    log_object,
    resource::{Resource, Target},
    status_writer::WritePace,
    stop::Stop,
};
use kubeconfig::secret;
use log::Level;
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    Context, Registration, longest_wait,
    secret::SecretReader,
    service_account,
    token::{LeastUse, TOKEN, TokenClaims, TokenNeed, need},
};
use crate::{
    addon::managed_cluster_addon::{AddOn, TOKEN_REFRESHED},
    cached::CachedObject,
    certificate::store::SecretValues,
    conditions::Condition,
    identity::CLUSTER_NAME,
};

static SERVICE_ACCOUNTS: Resource = Resource::v1("", "serviceaccounts", "ServiceAccount");
/// What the Secret of a certificate has.
const KEYS_OF_CERTIFICATES: &[&str] = &["tls.crt", "tls.key"];

/// The last token of this process.
struct ObtainedToken {
    /// Until it is in the Secret: another attempt to save it must not cost another token.
    unsaved: Option<Zeroizing<Vec<u8>>>,
    /// Or why it cannot be used; then there is none to save.
    claims: std::result::Result<TokenClaims, &'static str>,
    /// uid of the ServiceAccount that it was requested for; the hub may not have said yet that there is another one.
    uid: String,
    /// The end of its least use.
    until: Instant,
}

/// The token of one registration.
pub(super) struct TokenRegistration {
    lifetime: u32,
    pub(super) secret: SecretReader,
    pace: WritePace,
    obtained: Option<ObtainedToken>,
    /// What was logged last that the token waits for.
    waits: Option<&'static str>,
    refreshed: Option<Condition>,
}

impl TokenRegistration {
    pub(super) fn new(lifetime: u32) -> Self {
        Self {
            lifetime,
            secret: SecretReader::default(),
            pace: WritePace::new(Instant::now()),
            obtained: None,
            waits: None,
            refreshed: None,
        }
    }

    /// The lifetime of the tokens to request from now on.
    pub(super) fn set_lifetime(&mut self, lifetime: u32) {
        self.lifetime = lifetime;
    }

    /// The condition about the token, once there is something to say.
    pub(super) fn condition(&self) -> Option<(&'static str, Condition)> {
        Some((TOKEN_REFRESHED, self.refreshed.clone()?))
    }

    /// Does what is due; returns when to come again if nothing changes.
    ///
    /// # Errors
    /// As the cluster of the Secret says.
    pub(super) fn reconcile(
        &mut self,
        registration: &Registration,
        addon: &AddOn,
        context: &Context<'_>,
    ) -> Result<Instant> {
        let target = registration.secret.target();
        let uid = match &addon.service_account {
            Ok(uid) => uid,
            &Err(waits) => {
                if self.waits.replace(waits) != Some(waits) {
                    log_object!(Level::Info, target; "no token for the add-on: {waits}");
                }
                return Ok(Instant::now() + Stop::SLICE);
            }
        };
        self.waits = None;
        let now = Instant::now();
        let need = self.need(uid, context, now);
        self.pace.needed(!matches!(need, TokenNeed::Nothing(..)), now);
        if let TokenNeed::Nothing(left, claims) = need {
            if self.refreshed.as_ref().is_none_or(|told| told.status != "True") {
                self.refreshed = Some(claims.refreshed());
            }
            return Ok(now + left);
        }
        if now < self.pace.not_before {
            return Ok(self.pace.not_before);
        }
        let result = match need {
            TokenNeed::Token(why) => self.refresh(&why, uid, registration, context),
            _ => self.save(None, registration, context),
        };
        match result {
            Ok(()) => drop(self.pace.wrote(Instant::now())),
            Err(error) => {
                let now = Instant::now();
                let level = self.pace.failed(&error, now);
                self.pace.not_before = self.pace.not_before.min(now + longest_wait(&error));
                log_object!(level, target, error:% = error; "managing the token of an add-on failed");
            }
        }
        Ok(Instant::now())
    }

    fn need(&self, uid: &str, context: &Context<'_>, now: Instant) -> TokenNeed {
        let CachedObject::Object(object) = self.secret.seen() else {
            return TokenNeed::Token("does not exist".into());
        };
        let (hub, clocks) = (&context.session.hub, context.agent.clocks());
        let obtained = self.obtained.as_ref().filter(|it| it.uid == uid && now < it.until);
        let least = obtained.and_then(|it| {
            Some(LeastUse { claims: it.claims.clone().ok()?, left: it.until - now })
        });
        match secret::data(object) {
            Ok(data) => need(&data, least.as_ref(), (uid, &context.names.cluster), hub, clocks),
            Err(error) => TokenNeed::Token(format!("cannot be read: {error}")),
        }
    }

    /// Saves the token that could not be saved yet, or else a new one, as the Secret needs one for this reason.
    fn refresh(
        &mut self,
        why: &str,
        uid: &str,
        registration: &Registration,
        context: &Context<'_>,
    ) -> Result<()> {
        let (target, now) = (registration.secret.target(), Instant::now());
        if !self.keeps(uid, now) {
            let name = registration.secret.sentence_name();
            log_object!(Level::Info, target; "requesting a token: {name} {why}");
            let token = self.request(registration, context).inspect_err(|error| {
                let message = format!("Failed to create token: {error}");
                self.refreshed = Some(Condition::new("False", "TokenCreationFailed", message));
            })?;
            self.take(token, uid, now);
        }
        let Some(obtained) = &self.obtained else { return Ok(()) };
        let (token, claims) = (obtained.unsaved.clone(), obtained.claims.clone());
        let claims = claims.map_err(|what| {
            let message = format!("the hub's token {what}");
            self.refreshed = Some(Condition::new("False", "TokenCreationFailed", message.clone()));
            Error::bad_config(message)
        })?;
        self.save(token, registration, context)?;
        if let Some(obtained) = &mut self.obtained {
            obtained.unsaved = None;
        }
        self.refreshed = Some(claims.refreshed());
        log_object!(Level::Info, target; "the token of an add-on was saved");
        Ok(())
    }

    /// Whether to keep the last token, which is valid for a year, instead of requesting another. It must be for the
    /// ServiceAccount of this uid, and:
    /// - it is not saved yet, or
    /// - its claims cannot be used, and the next token would be no better.
    pub(super) fn keeps(&self, uid: &str, now: Instant) -> bool {
        let obtained = self.obtained.as_ref().filter(|it| it.uid == uid && now < it.until);
        obtained.is_some_and(|it| it.unsaved.is_some() || it.claims.is_err())
    }

    /// Takes the hub's token. It is kept for half of its life, or of the requested one if it does not say its own.
    pub(super) fn take(&mut self, token: Zeroizing<Vec<u8>>, uid: &str, now: Instant) {
        let claims = TokenClaims::of(&token);
        let requested = Duration::from_secs(self.lifetime.into()) / 2;
        let until = now + claims.as_ref().map_or(requested, TokenClaims::least_use);
        let unsaved = claims.is_ok().then_some(token);
        self.obtained = Some(ObtainedToken { unsaved, claims, uid: uid.to_owned(), until });
    }

    fn request(
        &self,
        registration: &Registration,
        context: &Context<'_>,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let account = service_account(&registration.addon);
        let object = SERVICE_ACCOUNTS.object(&context.names.cluster, &account);
        let target = Target { subresource: Some("token"), ..object };
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": self.lifetime},
        });
        let answer = context.session.client.create(&target, &request)?;
        let token =
            answer["status"]["token"].as_str().map(|token| token.as_bytes().to_vec().into());
        token.ok_or_else(|| Error::bad_config(format!("the hub gives no token for {target}")))
    }

    /// Saves the token, if there is a new one, and what is next to it.
    fn save(
        &mut self,
        token: Option<Zeroizing<Vec<u8>>>,
        registration: &Registration,
        context: &Context<'_>,
    ) -> Result<()> {
        let (cluster, hub) = (context.names.cluster.clone(), &context.session.hub);
        let mut values = SecretValues::from([
            (CLUSTER_NAME, cluster.into_bytes().into()),
            ("kubeconfig", hub.token_kubeconfig(TOKEN).into_bytes().into()),
        ]);
        if let Some(token) = token {
            values.insert(TOKEN, token);
        }
        self.secret.save(context.agent, &registration.secret, &values, KEYS_OF_CERTIFICATES)
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

    use super::*;

    /// A token for 1,000 s.
    fn token() -> Zeroizing<Vec<u8>> {
        let claims = json!({"iat": 1_800_000_000, "exp": 1_800_001_000}).to_string();
        format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims)).into_bytes().into()
    }

    #[test]
    fn addon_token_that_is_not_saved_yet_is_kept() {
        let (mut registration, now) = (TokenRegistration::new(600), Instant::now());
        assert!(!registration.keeps("u1", now));
        registration.take(token(), "u1", now);
        assert!(registration.keeps("u1", now + Duration::from_secs(499)));
        assert!(!registration.keeps("u1", now + Duration::from_secs(500)));
        assert!(!registration.keeps("u2", now), "another ServiceAccount");
        registration.obtained.as_mut().unwrap().unsaved = None;
        assert!(!registration.keeps("u1", now), "it is in the Secret, or was");
    }

    #[test]
    fn addon_token_that_cannot_be_read_delays_the_next() {
        let (mut registration, now) = (TokenRegistration::new(600), Instant::now());
        registration.take(b"opaque".to_vec().into(), "u1", now);
        let obtained = registration.obtained.as_ref().unwrap();
        assert!(obtained.claims.is_err() && obtained.unsaved.is_none());
        assert!(registration.keeps("u1", now + Duration::from_secs(299)));
        assert!(!registration.keeps("u1", now + Duration::from_secs(300)));
        assert!(!registration.keeps("u2", now), "another ServiceAccount");
    }
}
