//! Certificate of an add-on: its Secret, its CSR on the hub, and what people are told.

use std::time::Instant;

use apiclient::{certificate::chain, error::Result, log_object};
use kubeconfig::{Hub, secret::Data};
use log::Level;
use serde_json::Value;

use super::context::{SecretContext, TOKEN};
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
    identity::{CLUSTER_NAME, said},
};

/// Does what is due for the certificate of an add-on in `secret`; returns when to come again if nothing changes. A
/// certificate of the former default user, if there is one, keeps its user at renewal.
pub(super) fn sync(
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

/// Validates certificate and key for `template`, and what is next to them.
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
        if let Some(word) = known.and_then(|known| known.differs_from(hub)) {
            let reason = format!("is for another hub: the {word} differs");
            return Err(UnusableCredential { reason, event: OTHER_DATA });
        }
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
        self.context.request(self.template)
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

    /// Upstream writes no `agent-name` either.
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
