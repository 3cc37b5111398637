//! Controller of one registration's Secret (ocm `pkg/registration/register/secret_controller.go`), and its [`Io`]. It
//! stores the Secret's name first, then writes the Secret, and removes the name last.

use std::{sync::Arc, time::Instant};

use apiclient::{certificate::chain, error::Result, log_object, stop::Stop};
use kubeconfig::{Hub, secret::Data};
use log::Level;
use serde_json::Value;

use super::{
    context::{SecretContext, TOKEN, request},
    managed_cluster_addon::{Credential, READ_INTERVAL, Registration, service_account},
    token::TokenDriver,
};
use crate::{
    certificate::{
        Certificate,
        csr::{CertificateRequest, CsrTemplate, KUBE_API_SERVER_CLIENT},
        io::{CertificateContext, Io, Requester, value, values_of},
        validate::{
            OTHER_DATA, UnusableCredential, UsableCredential, Validation, certificate, config,
            of_secret,
        },
    },
    clocks::Clocks,
    conditions::{Condition, TypedCondition},
    identity::{CLUSTER_NAME, said},
    pacing::Pace,
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
    conflict: Option<String>,
    due: Pace,
}

impl SecretController {
    /// Returns the condition about the credential, if it belongs to this add-on and the condition is known.
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

    /// Takes the step that is due for this Secret, or deletes it if nothing is `desired`; returns when the next is due.
    pub(super) fn reconcile(
        &mut self,
        desired: Option<Arc<Registration>>,
        mut context: SecretContext<'_>,
    ) -> Instant {
        let is_due = Instant::now() >= self.due.at || self.desired != desired;
        if !is_due && !self.is_answered(&context) {
            return self.due.at;
        }
        self.desired.clone_from(&desired);
        let (result, what) = match &desired {
            Some(registration) => (self.keep(registration, &mut context), "kept"),
            None => (context.remove().map(|()| Instant::now() + Stop::SLICE), "deleted"),
        };
        let what = format!("the credential of an add-on is not {what}");
        self.due.set(result, &context.name.target(), &what)
    }

    /// Returns whether the CSR that waits may have been answered.
    fn is_answered(&self, context: &SecretContext<'_>) -> bool {
        let csrs = &context.session.csrs;
        let is_answered = self.certificate.waits_for().is_some_and(|name| !csrs.is_known(name));
        is_answered && self.conflict.is_none() && !self.due.is_failing()
    }

    /// Reads the Secret, and takes the step that is due for its credential; returns when the next one is due.
    fn keep(
        &mut self,
        Registration { addon, credential }: &Registration,
        context: &mut SecretContext<'_>,
    ) -> Result<Instant> {
        let secret = context.read()?;
        let next_read = Instant::now() + READ_INTERVAL;
        let conflict = context.conflict(secret.as_ref());
        let conflict = conflict
            .map(|why| format!("{} {why}: it is not written", context.name.sentence_name()));
        if let Some(why) = conflict.as_ref().filter(|why| self.conflict.as_ref() != Some(*why)) {
            context.agent.record_event(CONFLICT, true, why);
        }
        self.conflict = conflict;
        if self.conflict.is_some() {
            return Ok(next_read);
        }
        // Without the name, no later process would delete the Secret. For a token, the store drops a request.
        let is_certificate = matches!(credential, Credential::Certificate { .. });
        if !context.is_stored(addon, is_certificate)? {
            context.store(Some((addon, None)))?;
        }
        let due = match credential {
            Credential::Certificate { template, former_user } => {
                let wanted = (template, former_user.as_deref());
                sync_certificate(&mut self.certificate, addon, wanted, secret.as_ref(), context)?
            }
            Credential::Token { lifetime, account } => {
                let account = (service_account(addon), account.as_deref());
                self.token.sync(*lifetime, account, secret.as_ref(), context)?
            }
        };
        Ok(due.min(next_read))
    }
}

/// Takes the step that is due for the certificate in `secret`. One with the former default user keeps this user.
fn sync_certificate(
    certificate: &mut Certificate,
    addon: &str,
    (template, former_user): (&CsrTemplate, Option<&str>),
    secret: Option<&Value>,
    context: &mut SecretContext<'_>,
) -> Result<Instant> {
    let session = context.session;
    let (clocks, now) = (context.agent.clocks(), Instant::now());
    let mut template = template.clone();
    let (data, validation) = of_secret(secret, |data| {
        if let Some(user) = user_of(data).filter(|user| former_user == Some(user)) {
            template.subject.user = user;
        }
        validate(data, &template, &session.names.cluster, &session.hub, clocks)
    });
    let name = context.name.sentence_name();
    let need = certificate.need(&name, &validation, false, (clocks, now));
    certificate.sync(&mut CertificateContext {
        io: &mut AddOnIo { addon, template: &template, secret, context },
        secret: &name,
        need: &need,
        validation: &validation,
        key: data.get("tls.key").map(|key| key.as_slice()),
        requester: Some(&Requester { is_agent: true, hub: session.hub.clone() }),
        template: &template,
        agent: &session.names.user(),
        now,
        random: fastrand::f64(),
    })
}

fn user_of(data: &Data) -> Option<String> {
    let chain = chain(data.get("tls.crt")?).ok()?;
    Some(chain.into_iter().next()?.common_name)
}

/// Validates certificate and key for `template`, and the values next to them.
fn validate(
    data: &Data,
    template: &CsrTemplate,
    cluster: &str,
    hub: &Hub,
    clocks: Clocks,
) -> Validation {
    let (identity, chain) = certificate(data, &template.subject, clocks)?;
    let mut stale = !said(data, CLUSTER_NAME, cluster);
    if template.signer == KUBE_API_SERVER_CLIENT {
        let known = Hub::of_secret("", data).ok();
        if let Some(word) = known.as_ref().and_then(|known| known.differs_from(hub)) {
            let reason = format!("is for another hub: the {word} differs");
            return Err(UnusableCredential { reason, event: OTHER_DATA });
        }
        stale |= known.is_some_and(|known| !known.is_checked_as(hub));
        stale |= config(data, &identity).is_err();
    }
    let hub = hub.clone();
    Ok(UsableCredential { identity, chain, hub, moved: None, config: None, stale })
}

struct AddOnIo<'a, 'b> {
    addon: &'a str,
    template: &'a CsrTemplate,
    secret: Option<&'a Value>,
    context: &'a mut SecretContext<'b>,
}

impl Io for AddOnIo<'_, '_> {
    fn new_request(&mut self, why: &str) -> Result<CertificateRequest> {
        log_object!(Level::Info, self.context.name.target(); "requesting a certificate: {why}");
        CertificateRequest::new(self.template)
    }

    fn stored(&mut self) -> Result<Option<CertificateRequest>> {
        let SecretContext { registrations, name, .. } = &mut *self.context;
        Ok(request(registrations.read()?, name, self.template))
    }

    fn store(&mut self, request: Option<&CertificateRequest>) -> Result<()> {
        self.context.store(Some((self.addon, request)))
    }

    fn pending(&mut self) -> Result<usize> {
        self.context.session.csrs.pending(self.template)
    }

    fn csr(&mut self, name: &str) -> Result<Option<Value>> {
        self.context.session.csrs.get(name)
    }

    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()> {
        let expiration = self.context.agent.settings.expiration;
        self.context.session.csrs.create(request, self.template, expiration)
    }

    /// Like upstream, writes no `agent-name`.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()> {
        let mut values = values_of(issued);
        if self.template.signer == KUBE_API_SERVER_CLIENT {
            let kubeconfig = self.context.session.hub.kubeconfig();
            values.insert("kubeconfig".to_owned(), value(kubeconfig));
        }
        values.insert(TOKEN.to_owned(), None);
        self.context.save(self.secret, values)
    }

    fn clocks(&self) -> Clocks {
        self.context.agent.clocks()
    }

    fn notify(&mut self, level: Level, _: &'static str, message: String) {
        log_object!(level, self.context.name.target(); "{message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::{
        authority::{CertificateTemplate, names, now, template},
        model::fixtures::hub,
    };

    #[test]
    fn hub_that_is_checked_otherwise_makes_the_kubeconfig_stale() {
        let request = CertificateRequest::new(&template()).unwrap();
        let pem = CertificateTemplate::of(&names(), now()).certificate(&request);
        let mut values = values_of(Some((pem.as_bytes(), &request)));
        let (known, cluster) = (hub(), names().cluster);
        values.insert("kubeconfig".to_owned(), value(known.kubeconfig()));
        values.insert(CLUSTER_NAME.to_owned(), value(&*cluster));
        let data: Data = values.into_iter().filter_map(|(key, it)| Some((key, it?))).collect();
        let renamed = Hub { server_name: Some("other".into()), ..hub() };
        for (hub, stale) in [(known, false), (renamed, true)] {
            let clocks = crate::clocks::tests::at(now());
            let validated = validate(&data, &template(), &cluster, &hub, clocks).unwrap();
            assert_eq!(validated.stale, stale);
        }
    }
}
