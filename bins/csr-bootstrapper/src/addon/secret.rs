//! Controller of one registration's Secret: OCM's secretController (ocm
//! `pkg/registration/register/secret_controller.go`). It stores the Secret's name first, then writes the Secret, and
//! removes the name last.

use std::{sync::Arc, time::Instant};

use apiclient::{error::Result, stop::Stop};
use serde_json::Value;

use super::{
    certificate,
    context::SecretContext,
    managed_cluster_addon::{Credential, READ_INTERVAL, Registration, service_account},
    token::TokenDriver,
};
use crate::{
    certificate::Certificate,
    conditions::{Condition, TypedCondition},
    pacing::NextAttempt,
};

/// Types of the conditions about a credential (ocm `pkg/registration/register/csr/csr.go`, `register/token/token.go`).
const ROTATED: &str = "ClusterCertificateRotated";
const TOKEN_REFRESHED: &str = "TokenRefreshed";
/// The reason of the condition, and of the Event, about a Secret that must not be written.
const CONFLICT: &str = "SecretConflict";

#[derive(Default)]
pub(super) struct SecretController {
    desired: Option<Arc<Registration>>,
    // Either a certificate or a token is desired.
    certificate: Certificate,
    token: TokenDriver,
    /// The Secret as it was last read; `None` if it did not exist.
    secret: Option<Value>,
    conflict: Option<String>,
    due: NextAttempt,
}

impl SecretController {
    /// The condition about the credential, if it is one of this add-on and there is something to say.
    pub(super) fn condition(&self, addon: &str) -> Option<TypedCondition> {
        let desired = self.desired.as_ref().filter(|desired| desired.addon == addon)?;
        let (kind, condition) = match desired.credential {
            Credential::Certificate { .. } => (ROTATED, self.certificate.rotated.clone()),
            Credential::Token { .. } => (TOKEN_REFRESHED, self.token.refreshed.clone()),
        };
        let conflict = self.conflict.clone();
        let conflict = conflict.map(|why| Condition::new("False", CONFLICT, why));
        Some((kind, conflict.or(condition)?))
    }

    /// Does what is due for this Secret, which goes if nothing is `desired`; returns when to come again.
    pub(super) fn reconcile(
        &mut self,
        desired: Option<Arc<Registration>>,
        mut context: SecretContext<'_>,
    ) -> Instant {
        let is_due = Instant::now() >= self.due.at || self.desired != desired;
        // A CSR that waits may have an answer.
        let is_waiting = self.certificate.is_waiting() && !self.due.is_failing();
        if !is_due && !is_waiting {
            return self.due.at;
        }
        self.desired.clone_from(&desired);
        let (result, what) = match &desired {
            Some(registration) => (self.keep(registration, is_due, &mut context), "kept"),
            None => (context.remove().map(|()| Instant::now() + Stop::SLICE), "deleted"),
        };
        let what = format!("the credential of an add-on is not {what}");
        self.due.set(result, &context.name.target(), &what)
    }

    /// Does what is due for the credential in the Secret, which this `reads` again; returns when to come again.
    fn keep(
        &mut self,
        Registration { addon, credential }: &Registration,
        reads: bool,
        context: &mut SecretContext<'_>,
    ) -> Result<Instant> {
        let mut next_read = self.due.at;
        if reads {
            self.secret = context.read()?;
            next_read = Instant::now() + READ_INTERVAL;
        }
        let conflict = context.conflict(self.secret.as_ref());
        let conflict = conflict
            .map(|why| format!("{} {why}: it is not written", context.name.sentence_name()));
        if let Some(why) = conflict.as_ref().filter(|why| self.conflict.as_ref() != Some(*why)) {
            context.agent.record_event(CONFLICT, true, why);
        }
        self.conflict = conflict;
        if self.conflict.is_some() {
            return Ok(next_read);
        }
        // Without the name, no later process would delete the Secret. A token leaves no request behind.
        let is_certificate = matches!(credential, Credential::Certificate { .. });
        if !context.is_stored(addon, is_certificate)? {
            context.store(Some((addon, None)))?;
        }
        let secret = self.secret.as_ref();
        let due = match credential {
            Credential::Certificate { template, former_user } => {
                let wanted = (template, former_user.as_deref());
                certificate::sync(&mut self.certificate, addon, wanted, secret, context)?
            }
            Credential::Token { lifetime, account } => {
                let account = (service_account(addon), account.as_deref());
                self.token.sync(*lifetime, account, secret, context)?
            }
        };
        Ok(due.min(next_read))
    }
}
