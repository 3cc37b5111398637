//! Certificate of an add-on: its Secret, its CSR on the hub, and what people are told.

use std::time::Instant;

use apiclient::{
    error::{Error, Result},
    lock::lock,
    log_line::seconds,
    log_object,
};
use kubeconfig::secret::Data;
use log::Level;
use serde_json::Value;

use super::{Credential, keeper::Step, token::TOKEN};
use crate::{
    certificate::{
        CsrTemplate,
        csr::{CSRS, CertificateRequest, KUBE_API_SERVER_CLIENT},
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

/// Obtains the certificate of one registration.
#[derive(Default)]
pub(super) struct CertificateDriver {
    /// The template of the last step.
    template: Option<CsrTemplate>,
    certificate: Certificate,
    /// The need that was logged last.
    announced: Option<String>,
}

impl CertificateDriver {
    /// The condition about the certificate, once there is something to say.
    pub(super) fn condition(&self) -> Option<Condition> {
        Some(self.certificate.rotated()?.condition())
    }

    /// Returns whether a CSR is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        self.certificate.is_waiting()
    }

    /// Awaits no CSR any more.
    pub(super) fn close(&self, session: &HubSession) {
        if let Some(request) = self.certificate.request() {
            session.csrs.forget(&request.name);
        }
    }

    /// Does what is due; returns when to come again if nothing changes.
    ///
    /// # Errors
    /// As the hub and the cluster of the Secret say.
    pub(super) fn reconcile(&mut self, credential: &Credential, step: Step<'_>) -> Result<Instant> {
        let session = step.context.session;
        let Some(template) = credential.template(step.secret.seen()) else {
            return Ok(step.secret.next_read());
        };
        if self.template.as_ref() != Some(&template) {
            self.close(session);
            // An earlier process may have stored a request of this template.
            let stored = lock(step.context.store).request(step.name, &template);
            self.certificate.adopt(stored);
            self.template = Some(template.clone());
        }
        let (clocks, now) = (step.context.agent.clocks(), Instant::now());
        let (data, validation) = match content(step.secret.seen()) {
            Ok(data) => {
                let validation =
                    validate(&data, &template, &session.names.cluster, &session.hub, clocks);
                (data, validation)
            }
            Err(unusable) => (Data::new(), Validation::Unusable(unusable)),
        };
        let name = step.name.sentence_name();
        let moved = (false, NewHub::Silent);
        let need = self.certificate.need(&name, &validation, moved, (clocks, now));
        self.announce(&need, &step);
        let seen = Observation {
            need: &need,
            validation: &validation,
            key: data.get("tls.key").map(|key| key.as_slice()),
            requester: Some((Requester::Agent, &session.hub)),
            approved_by_hand: true,
            template: &template,
            agent: &session.names.user(),
            now,
            random: fastrand::f64(),
        };
        if !matches!(need, Need::Certificate(_)) {
            self.close(session);
            let is_others = self.certificate.request().is_none();
            let mut store = lock(step.context.store);
            // The add-on wanted another template for a while.
            if is_others && store.has_request(step.name) {
                store.set(step.name, step.addon, None)?;
            }
        }
        let mut io = AddOnIo { template: &template, step };
        self.certificate.sync(&seen, &mut io)
    }

    /// Logs a new need.
    fn announce(&mut self, need: &Need, step: &Step<'_>) {
        let sentence = match need {
            Need::Certificate(why) => Some(&why.sentence),
            _ => None,
        };
        if self.announced.as_ref() != sentence {
            if let Some(sentence) = sentence {
                let target = step.name.target();
                log_object!(Level::Info, target; "requesting a certificate: {sentence}");
            }
            self.announced = sentence.cloned();
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
struct AddOnIo<'a> {
    template: &'a CsrTemplate,
    step: Step<'a>,
}

impl Io for AddOnIo<'_> {
    fn new_request(&mut self) -> Result<CertificateRequest> {
        CertificateRequest::new(self.template)
    }

    fn store(
        &mut self,
        request: Option<&CertificateRequest>,
        previous: Option<&CertificateRequest>,
    ) -> Result<()> {
        let Step { name, addon, context, .. } = &self.step;
        let mut store = lock(context.store);
        let there = store.request(name, self.template);
        // The answer to an earlier write was lost, or it came late: another one in its place might be posted too.
        if request.is_some() && there.is_some() && there.as_ref() != previous {
            return Err(Error::Conflict("another request is stored".to_owned()));
        }
        store.set(name, addon, request)
    }

    fn stored(&mut self) -> Result<Option<CertificateRequest>> {
        Ok(lock(self.step.context.store).request(self.step.name, self.template))
    }

    fn pending(&mut self) -> Result<Vec<String>> {
        self.step.context.session.csrs.pending(self.template)
    }

    fn csr(&mut self, name: &str) -> Result<Option<Value>> {
        self.step.context.session.csrs.get(name)
    }

    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()> {
        let expiration = self.step.context.agent.settings.expiration;
        self.step.context.session.csrs.create(request, self.template, expiration)
    }

    /// As in upstream there is no `agent-name`.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()> {
        let Step { name, secret, context, .. } = &mut self.step;
        let session = context.session;
        let cluster = session.names.cluster.clone();
        let mut values = SecretValues::from([(CLUSTER_NAME, cluster.into_bytes().into())]);
        if self.template.signer == KUBE_API_SERVER_CLIENT {
            values.insert("kubeconfig", session.hub.kubeconfig().into_bytes().into());
        }
        if let Some((pem, request)) = issued {
            values.insert("tls.crt", pem.to_vec().into());
            values.insert("tls.key", request.key.as_bytes().to_vec().into());
        }
        secret.save(context.agent, name, &values, &[TOKEN])
    }

    fn clocks(&self) -> Clocks {
        self.step.context.agent.clocks()
    }

    fn notify(&mut self, notice: &Notice<'_>) {
        let secret = self.step.name.target();
        match notice {
            Notice::Halted { is_new, .. } => {
                if *is_new {
                    log_object!(Level::Warn, secret; "{}", Rotated::Halted.message());
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
            Notice::Ended { name, sentence, rest, .. } => {
                self.step.context.session.csrs.forget(name);
                log_object!(
                    Level::Warn, CSRS.cluster_object(name), retry_in = seconds(*rest);
                    "{sentence}"
                );
            }
            Notice::Saved(name) => {
                self.step.context.session.csrs.forget(name);
                log_object!(Level::Info, secret; "the certificate of an add-on was saved");
            }
            Notice::Repaired => {
                log_object!(Level::Info, secret; "the credential of an add-on was repaired");
            }
        }
    }
}
