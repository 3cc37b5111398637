//! Certificate of an add-on: its Secret, its CSR on the hub, and what people are told.

use std::time::Instant;

use apiclient::{error::Result, lock::lock, log_object};
use kubeconfig::secret::Data;
use log::Level;
use serde_json::Value;

use super::{Credential, keeper::Step, token::TOKEN};
use crate::{
    certificate::{
        CsrTemplate,
        csr::{CertificateRequest, KUBE_API_SERVER_CLIENT},
        io::{Io, Notice, Observation},
        need::{Need, NewHub, Requester},
        store,
        sync::Certificate,
        validate::{
            OTHER_DATA, UnusableCredential, UsableCredential, Validation, certificate, config,
            of_secret,
        },
    },
    clocks::Clocks,
    conditions::Condition,
    hub::Hub,
    identity::{CLUSTER_NAME, said},
    state::HubSession,
};

/// Obtains the certificate of one registration.
#[derive(Default)]
pub(super) struct CertificateDriver {
    /// The template of the last step.
    template: Option<CsrTemplate>,
    certificate: Certificate,
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
            let stored = lock(step.context.store).request(step.name, &template)?;
            self.certificate.adopt(stored);
            self.template = Some(template.clone());
        }
        let (clocks, now) = (step.context.agent.clocks(), Instant::now());
        let (data, validation) = of_secret(step.secret.seen(), |data| {
            validate(data, &template, &session.names.cluster, &session.hub, clocks)
        });
        let name = step.name.sentence_name();
        let moved = (false, NewHub::Silent);
        let need = self.certificate.need(&name, &validation, moved, (clocks, now));
        let seen = Observation {
            secret: &name,
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
        let mut io = AddOnIo { template: &template, need: &need, step };
        self.certificate.sync(&seen, &mut io)
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
    need: &'a Need,
    step: Step<'a>,
}

impl Io for AddOnIo<'_> {
    fn new_request(&mut self) -> Result<CertificateRequest> {
        if let Need::Certificate(why) = self.need {
            log_object!(
                Level::Info, self.step.name.target();
                "requesting a certificate: {}", why.sentence
            );
        }
        CertificateRequest::new(self.template)
    }

    fn stored(&mut self) -> Result<Option<CertificateRequest>> {
        lock(self.step.context.store).request(self.step.name, self.template)
    }

    fn store(&mut self, request: Option<&CertificateRequest>) -> Result<()> {
        let Step { name, addon, context, .. } = &self.step;
        lock(context.store).set(name, addon, request)
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

    fn forget(&mut self, name: &str) {
        self.step.context.session.csrs.forget(name);
    }

    /// As in upstream there is no `agent-name`.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()> {
        let Step { name, secret, context, .. } = &mut self.step;
        let session = context.session;
        let mut values = store::values_of(issued);
        values.insert(CLUSTER_NAME, session.names.cluster.clone().into_bytes().into());
        if self.template.signer == KUBE_API_SERVER_CLIENT {
            values.insert("kubeconfig", session.hub.kubeconfig().into_bytes().into());
        }
        secret.save(context.agent, name, &values, &[TOKEN])
    }

    fn clocks(&self) -> Clocks {
        self.step.context.agent.clocks()
    }

    fn notify(&mut self, notice: &Notice) {
        if notice.is_new {
            log_object!(notice.level, self.step.name.target(); "{}", notice.message);
        }
    }
}
