//! Token of an add-on's ServiceAccount on the hub: requested, saved and refreshed.

use std::time::Instant;

use log::Level;
use serde_json::json;
use shared::{
    error::{Error, Result},
    log_object,
    resource::{Resource, Target},
    secret,
    stop::Stop,
};
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
    write_pace::WritePace,
};

static SERVICE_ACCOUNTS: Resource = Resource::v1("", "serviceaccounts", "ServiceAccount");
/// What the Secret of a certificate has.
const KEYS_OF_CERTIFICATES: &[&str] = &["tls.crt", "tls.key"];

/// The last token of this process.
struct ObtainedToken {
    /// Until it is in the Secret: another attempt to save it must not cost another token.
    unsaved: Option<Zeroizing<Vec<u8>>>,
    claims: TokenClaims,
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
                let should_log = self.pace.failed(&error, now);
                self.pace.not_before = self.pace.not_before.min(now + longest_wait(&error));
                let level = if should_log { Level::Warn } else { Level::Debug };
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
        let least = obtained.map(|it| LeastUse { claims: it.claims.clone(), left: it.until - now });
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
        let is_kept = |it: &ObtainedToken| it.uid == uid && now < it.until && it.unsaved.is_some();
        if !self.obtained.as_ref().is_some_and(is_kept) {
            let name = registration.secret.sentence_name();
            log_object!(Level::Info, target; "requesting a token: {name} {why}");
            let token = self.request(registration, context).inspect_err(|error| {
                let message = format!("Failed to create token: {error}");
                self.refreshed = Some(Condition::new("False", "TokenCreationFailed", message));
            })?;
            let claims = TokenClaims::of(&token)
                .map_err(|what| Error::bad_config(format!("the hub's token {what}")))?;
            let until = now + claims.least_use();
            let (unsaved, uid) = (Some(token), uid.to_owned());
            self.obtained = Some(ObtainedToken { unsaved, claims, uid, until });
        }
        let token = self.obtained.as_ref().and_then(|it| it.unsaved.clone());
        self.save(token, registration, context)?;
        if let Some(obtained) = &mut self.obtained {
            obtained.unsaved = None;
            self.refreshed = Some(obtained.claims.refreshed());
        }
        log_object!(Level::Info, target; "the token of an add-on was saved");
        Ok(())
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
        let mut values: SecretValues = shared::collect([
            (CLUSTER_NAME, cluster.into_bytes().into()),
            ("kubeconfig", hub.token_kubeconfig(TOKEN).into_bytes().into()),
        ]);
        if let Some(token) = token {
            values.insert(TOKEN, token);
        }
        self.secret.save(context.agent, &registration.secret, &values, KEYS_OF_CERTIFICATES)
    }
}
