//! Certificate of an add-on: its Secret, its CSR on the hub, and what people are told.

use std::time::Instant;

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    log_line::seconds,
    log_object,
};
use kubeconfig::secret::Data;
use log::Level;
use serde_json::Value;

use super::{
    Context, LONGEST_WAIT, Registration, RegistrationSecret, longest_wait,
    secret::SecretReader,
    store::{StoredRegistration, StoredRequest},
    token::TOKEN,
};
use crate::{
    addon::managed_cluster_addon::ROTATED,
    certificate::{
        CsrTemplate,
        csr::{CLUSTER_LABEL, CSRS, CertificateRequest, KUBE_API_SERVER_CLIENT},
        csr_status::{ADDON_LABEL, is_pending_of},
        csr_watch::list_pending,
        deadline::rotated_message,
        io::{Io, Notice, Observation},
        need::{Need, NewHub, Requester},
        store::SecretValues,
        sync::Certificate,
        validate::{
            OTHER_DATA, UnusableCredential, UsableCredential, Validation, certificate, config,
            content,
        },
    },
    clocks::Clocks,
    conditions::Condition,
    hub::Hub,
    identity::{CLUSTER_NAME, said},
    state::{HubSession, Rotated},
};

/// What the Secret of a token has.
const KEYS_OF_TOKENS: &[&str] = &[TOKEN];

/// The certificate of one registration.
pub(super) struct CertificateRegistration {
    template: CsrTemplate,
    pub(super) secret: SecretReader,
    certificate: Certificate,
    errors: Backoff,
    rotated: Option<Rotated>,
    /// The need that was logged last.
    announced: Option<String>,
}

impl CertificateRegistration {
    /// Starts with the request that an earlier process stored.
    pub(super) fn new(template: CsrTemplate, request: Option<CertificateRequest>) -> Self {
        Self {
            template,
            secret: SecretReader::default(),
            certificate: Certificate::new(request),
            errors: Backoff::new(LONGEST_WAIT),
            rotated: None,
            announced: None,
        }
    }

    /// The condition about the certificate, once there is something to say.
    pub(super) fn condition(&self) -> Option<(&'static str, Condition)> {
        Some((ROTATED, self.rotated.as_ref()?.condition()))
    }

    /// Returns whether a CSR is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        self.certificate.is_waiting()
    }

    /// Awaits no CSR any more.
    pub(super) fn close(&self, context: &mut Context<'_>) {
        if let Some(request) = self.certificate.request() {
            context.csrs.forget(&request.name);
        }
    }

    /// Requests by another template from now on, at the pace of before. The stored request may be one of it.
    fn set_template(
        &mut self,
        template: CsrTemplate,
        secret: &RegistrationSecret,
        context: &mut Context<'_>,
    ) {
        if self.template != template {
            self.close(context);
            self.certificate.adopt(context.store.request(secret, &template));
            self.template = template;
        }
    }

    /// Does what is due; returns when to come again if nothing changes.
    pub(super) fn reconcile(
        &mut self,
        registration: &Registration,
        context: &mut Context<'_>,
    ) -> Instant {
        if let Some(template) = registration.credential.template(self.secret.seen()) {
            self.set_template(template, &registration.secret, context);
        }
        let (clocks, now) = (context.agent.clocks(), Instant::now());
        let (data, validation) = self.validate(context, clocks);
        let name = registration.secret.sentence_name();
        let moved = (false, NewHub::Silent);
        let need = self.certificate.need(&name, &validation, moved, (clocks, now));
        self.announce(&need, &validation, registration);
        let hub = context.session.hub.clone();
        let seen = Observation {
            need: &need,
            validation: &validation,
            key: data.get("tls.key").map(|key| key.as_slice()),
            requester: Some((Requester::Agent, &hub)),
            approved_by_hand: true,
            template: &self.template,
            agent: &context.session.names.user(),
            now,
            random: fastrand::f64(),
        };
        let mut io = AddOnIo {
            registration,
            template: &self.template,
            secret: &mut self.secret,
            rotated: &mut self.rotated,
            context,
        };
        let synced = match need {
            Need::Certificate(_) => Ok(()),
            _ => io.tidy_up(self.certificate.request()),
        };
        let synced = synced.and_then(|()| self.certificate.sync(&seen, &mut io));
        self.conclude(synced, registration)
    }

    /// Logs a failure, and backs off.
    fn conclude(&mut self, synced: Result<Instant>, registration: &Registration) -> Instant {
        let now = Instant::now();
        let error = match synced {
            Ok(until) => {
                if self.certificate.failing_until(Some(Requester::Agent), now).is_none() {
                    self.errors.succeeded();
                }
                return until;
            }
            Err(error) => error,
        };
        let retry = self.errors.failed(&error, now, fastrand::f64());
        let wait = retry.wait.min(longest_wait(&error));
        self.certificate.failed(Some(Requester::Agent), now + wait);
        let level = if retry.should_log { Level::Warn } else { Level::Debug };
        log_object!(
            level, registration.secret.target(), error:% = error, retry_in = seconds(wait);
            "managing the certificate of an add-on failed"
        );
        now + wait
    }

    /// Logs a new need. Without one an earlier process may have ended before it reported its certificate, and somebody may
    /// have put one there.
    fn announce(&mut self, need: &Need, validation: &Validation, registration: &Registration) {
        let sentence = match need {
            Need::Certificate(why) => Some(&why.sentence),
            _ => None,
        };
        if self.announced.as_ref() != sentence {
            if let Some(sentence) = sentence {
                let target = registration.secret.target();
                log_object!(Level::Info, target; "requesting a certificate: {sentence}");
            }
            self.announced = sentence.cloned();
        }
        let is_told = self.rotated.as_ref().is_some_and(Rotated::is_done);
        if let (Need::Nothing(_), Some(usable), false) = (need, validation.usable(), is_told) {
            self.rotated = Some(Rotated::Done(rotated_message(&usable.identity.certificate)));
        }
    }

    fn validate(&self, context: &Context<'_>, clocks: Clocks) -> (Data, Validation) {
        let hub = &context.session.hub;
        match content(self.secret.seen().object()) {
            Ok(data) => {
                let validation =
                    validate(&data, &self.template, &context.session.names.cluster, hub, clocks);
                (data, validation)
            }
            Err(unusable) => (Data::new(), Validation::Unusable(unusable)),
        }
    }
}

/// Validates certificate and key for `template`, and what is next to them.
fn validate(
    data: &Data,
    template: &CsrTemplate,
    cluster: &str,
    hub: &Hub,
    clocks: Clocks,
) -> Validation {
    let unusable = |(event, reason)| Validation::Unusable(UnusableCredential { reason, event });
    let (identity, chain) = match certificate(data, &template.subject, clocks) {
        Ok(good) => good,
        Err(defect) => return unusable(defect),
    };
    let mut stale = !said(data, CLUSTER_NAME, cluster);
    if template.signer == KUBE_API_SERVER_CLIENT {
        let known = Hub::of_secret("", data).ok();
        if let Some(word) = known.and_then(|known| known.differs_from(hub)) {
            return unusable((OTHER_DATA, format!("is for another hub: the {word} differs")));
        }
        stale |= config(data, &identity).is_err();
    }
    Validation::Usable(UsableCredential { identity, chain, hub: hub.clone(), config: None, stale })
}

/// The view of one step.
struct AddOnIo<'a, 'b> {
    registration: &'a Registration,
    template: &'a CsrTemplate,
    secret: &'a mut SecretReader,
    rotated: &'a mut Option<Rotated>,
    context: &'a mut Context<'b>,
}

impl Io for AddOnIo<'_, '_> {
    fn new_request(&mut self) -> Result<CertificateRequest> {
        CertificateRequest::new(self.template)
    }

    fn store(
        &mut self,
        request: Option<&CertificateRequest>,
        previous: Option<&CertificateRequest>,
    ) -> Result<()> {
        let secret = &self.registration.secret;
        let there = self.context.store.request(secret, self.template);
        // The answer to an earlier write was lost, or it came late: another one in its place might be posted too.
        if request.is_some() && there.is_some() && there.as_ref() != previous {
            return Err(Error::Conflict("another request is stored".to_owned()));
        }
        let addon = self.registration.addon.clone();
        let request = request.map(StoredRequest::from);
        self.context.store.set(secret, StoredRegistration { addon, request })
    }

    fn stored(&mut self) -> Result<Option<CertificateRequest>> {
        Ok(self.context.store.request(&self.registration.secret, self.template))
    }

    fn pending(&mut self) -> Result<Vec<String>> {
        let HubSession { client, names, stop, .. } = self.context.session;
        let addon = &self.registration.addon;
        let labels = format!("{CLUSTER_LABEL}={},{ADDON_LABEL}={addon}", names.cluster);
        let (user, prefix) = (names.user(), &self.template.name_prefix);
        let is_ours = |csr: &Value| is_pending_of(csr, prefix, &user);
        list_pending(client, &labels, stop, &is_ours)
    }

    fn csr(&mut self, name: &str) -> Result<Option<Value>> {
        let Context { agent, session, csrs, .. } = &mut *self.context;
        let labels = format!("{CLUSTER_LABEL}={},{ADDON_LABEL}", session.names.cluster);
        csrs.get(agent, &session.client, Some(&labels), name)
    }

    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()> {
        self.context.csrs.invalidate(&request.name);
        let expiration = self.context.agent.settings.expiration;
        let object = request.object(self.template, expiration)?;
        let target = CSRS.cluster_object(&request.name);
        self.context.session.client.create(&target, &object).map(|_| ())
    }

    /// As in upstream there is no `agent-name`.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()> {
        let Context { agent, session, .. } = &self.context;
        let cluster = session.names.cluster.clone();
        let mut values = SecretValues::from([(CLUSTER_NAME, cluster.into_bytes().into())]);
        if self.template.signer == KUBE_API_SERVER_CLIENT {
            values.insert("kubeconfig", session.hub.kubeconfig().into_bytes().into());
        }
        if let Some((pem, request)) = issued {
            values.insert("tls.crt", pem.to_vec().into());
            values.insert("tls.key", request.key.as_bytes().to_vec().into());
        }
        self.secret.save(agent, &self.registration.secret, &values, KEYS_OF_TOKENS)
    }

    fn clocks(&self) -> Clocks {
        self.context.agent.clocks()
    }

    fn notify(&mut self, notice: &Notice<'_>) {
        let secret = self.registration.secret.target();
        match notice {
            Notice::Halted(_) => {
                let halted = Rotated::Halted;
                if self.rotated.as_ref() != Some(&halted) {
                    log_object!(Level::Warn, secret; "{}", halted.message());
                    *self.rotated = Some(halted);
                }
            }
            Notice::NotCreated(error) => {
                if !matches!(self.rotated, Some(Rotated::NotCreated(_))) {
                    *self.rotated = Some(Rotated::not_created(error));
                }
            }
            Notice::Created(name) => {
                let target = CSRS.cluster_object(name);
                log_object!(Level::Info, target; "the CSR of an add-on was created on the hub");
            }
            Notice::Pending { sentence, is_new, is_overdue } => {
                if *is_new {
                    let level = if *is_overdue { Level::Warn } else { Level::Info };
                    log_object!(level, secret; "{sentence}");
                }
            }
            Notice::Gone { name, rest } => log_object!(
                Level::Warn, CSRS.cluster_object(name), retry_in = seconds(*rest);
                "the CSR is gone from the hub without an answer"
            ),
            Notice::Ended { name, failure, rest } => {
                self.context.csrs.forget(name);
                let sentence = format!("CSR {name} {}", failure.sentence());
                log_object!(
                    Level::Warn, CSRS.cluster_object(name), retry_in = seconds(*rest);
                    "{sentence}"
                );
                *self.rotated = Some(Rotated::ended(&sentence));
            }
            Notice::Saved { name, pem } => {
                self.context.csrs.forget(name);
                *self.rotated = Some(Rotated::Done(rotated_message(pem)));
                log_object!(Level::Info, secret; "the certificate of an add-on was saved");
            }
            Notice::Repaired => {
                log_object!(Level::Info, secret; "the credential of an add-on was repaired");
            }
        }
    }
}

impl AddOnIo<'_, '_> {
    /// Stops awaiting the CSR, and deletes a stored request of another template, which the add-on wanted for a while.
    fn tidy_up(&mut self, request: Option<&CertificateRequest>) -> Result<()> {
        if let Some(request) = request {
            self.context.csrs.forget(&request.name);
            return Ok(());
        }
        let stored = self.context.store.get(&self.registration.secret);
        match stored.is_some_and(|stored| stored.request.is_some()) {
            true => self.store(None, None),
            false => Ok(()),
        }
    }
}
