//! Certificate of an add-on: its Secret, its CSR on the hub, and what people are told.

use std::time::Instant;

use apiclient::{certificate::chain, error::Result, lock::lock, log_object};
use kubeconfig::secret::{self, Data};
use log::Level;
use serde_json::Value;

use super::{keeper::Step, token::TOKEN};
use crate::{
    certificate::{
        CsrTemplate,
        csr::{CertificateRequest, KUBE_API_SERVER_CLIENT},
        io::{Io, Observation, Requester},
        store,
        sync::Certificate,
        validate::{
            Need, OTHER_DATA, UnusableCredential, UsableCredential, Validation, certificate,
            config, of_secret,
        },
    },
    clocks::Clocks,
    hub::Hub,
    identity::{CLUSTER_NAME, said},
};

/// Does what is due for the certificate of one registration; returns when to come again if nothing changes. A certificate
/// of the former default user, if there is one, keeps its user at renewal.
///
/// # Errors
/// As the hub and the cluster of the Secret say.
pub(super) fn sync(
    certificate: &mut Certificate,
    (template, former_user): (&CsrTemplate, Option<&str>),
    step: Step<'_>,
) -> Result<Instant> {
    let session = step.context.session;
    let (clocks, now) = (step.context.agent.clocks(), Instant::now());
    let template = &renewed(template, former_user, step.secret.seen.as_ref());
    adopt(certificate, template, &step)?;
    if certificate.request().is_none() {
        step.store_name()?;
    }
    let (data, validation) = of_secret(step.secret.seen.as_ref(), |data| {
        validate(data, template, &session.names.cluster, &session.hub, clocks)
    });
    let name = step.name.sentence_name();
    let need = certificate.need(&name, &validation, false, (clocks, now));
    if let (false, Some(request)) = (matches!(need, Need::Certificate(_)), certificate.request()) {
        session.csrs.forget(&request.name);
    }
    let seen = Observation {
        secret: &name,
        need: &need,
        validation: &validation,
        key: data.get("tls.key").map(|key| key.as_slice()),
        requester: Some((Requester::Agent, &session.hub)),
        template,
        agent: &session.names.user(),
        now,
        random: fastrand::f64(),
    };
    certificate.sync(&seen, &mut AddOnIo { template, need: &need, step })
}

/// The template for the certificate that follows the one in this Secret.
fn renewed(template: &CsrTemplate, former: Option<&str>, secret: Option<&Value>) -> CsrTemplate {
    let mut template = template.clone();
    if let Some(former) = former.filter(|former| user_of(secret).as_deref() == Some(*former)) {
        template.subject.user = former.to_owned();
    }
    template
}

/// The user of the certificate in a Secret.
fn user_of(secret: Option<&Value>) -> Option<String> {
    let data = secret::data(secret?).ok()?;
    let chain = chain(data.get("tls.crt")?).ok()?;
    Some(chain.into_iter().next()?.common_name)
}

/// Goes on with the stored request of this template: an earlier process may have stored one, or a write whose answer was
/// lost.
fn adopt(certificate: &mut Certificate, template: &CsrTemplate, step: &Step<'_>) -> Result<()> {
    let stored = lock(step.context.store).request(step.name, template)?;
    if stored.as_ref() != certificate.request() {
        if let Some(request) = certificate.request() {
            step.context.session.csrs.forget(&request.name);
        }
        certificate.adopt(stored);
    }
    Ok(())
}

/// Validates certificate and key for `template`, and what is next to them.
fn validate(
    data: &Data,
    template: &CsrTemplate,
    cluster: &str,
    hub: &Hub,
    clocks: Clocks,
) -> Validation {
    let (identity, chain) = match certificate(data, &template.subject, clocks) {
        Ok(good) => good,
        Err(unusable) => return Validation::Unusable(unusable),
    };
    let mut stale = !said(data, CLUSTER_NAME, cluster);
    if template.signer == KUBE_API_SERVER_CLIENT {
        let known = Hub::of_secret("", data).ok();
        if let Some(word) = known.and_then(|known| known.differs_from(hub)) {
            let reason = format!("is for another hub: the {word} differs");
            return Validation::Unusable(UnusableCredential { reason, event: OTHER_DATA });
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

    fn pending(&mut self) -> Result<usize> {
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
        let mut values = store::values_of(issued);
        if self.template.signer == KUBE_API_SERVER_CLIENT {
            let kubeconfig = self.step.context.session.hub.kubeconfig();
            values.insert("kubeconfig", kubeconfig.into_bytes().into());
        }
        self.step.save(values, &[TOKEN])
    }

    fn clocks(&self) -> Clocks {
        self.step.context.agent.clocks()
    }

    fn notify(&mut self, level: Level, _: &'static str, message: String) {
        log_object!(level, self.step.name.target(); "{message}");
    }
}
