//! Observation of an add-on's certificate, for the machine that requests it. No I/O, no clock.

use std::time::Instant;

use kubeconfig::secret::Data;

use crate::{
    cached::CachedObject,
    certificate::{
        CsrTemplate,
        csr::CertificateRequest,
        csr_status::{IssuedCsr, Judge, ObservedCsr, evaluate},
        deadline::due_in,
        need::{Need, Requester, need},
        observe::{ObservedCredential, SessionChange},
        validate::{
            OTHER_DATA, UnusableCredential, UsableCredential, Validation, certificate, config,
            content,
        },
    },
    clocks::Clocks,
    hub::Hub,
    identity::{AgentNames, CLUSTER_NAME, said},
};

/// All inputs at one moment.
pub(super) struct RegistrationInputs<'a> {
    /// `Secret ns/name`.
    pub(super) secret_name: &'a str,
    pub(super) secret: &'a CachedObject,
    pub(super) template: &'a CsrTemplate,
    /// The certificate is for the hub's API server, and has a kubeconfig next to it.
    pub(super) is_kube_client: bool,
    pub(super) names: &'a AgentNames,
    /// The hub of the session, which requests the certificate.
    pub(super) hub: &'a Hub,
    /// The last certificate of this process, and the end of its least use.
    pub(super) obtained: Option<&'a (Vec<u8>, Instant)>,
    /// The stored request, unless it ended.
    pub(super) request: Option<&'a CertificateRequest>,
    /// uid of its CSR, if this process posted it.
    pub(super) uid: Option<&'a str>,
    pub(super) issued: Option<&'a IssuedCsr>,
    /// The CSR on the hub, if it is watched.
    pub(super) csr: Option<CachedObject>,
    pub(super) clocks: Clocks,
    pub(super) now: Instant,
}

/// Observes all inputs once.
pub(super) fn observe(inputs: &RegistrationInputs<'_>) -> ObservedCredential {
    let (data, validation) = validated(inputs);
    let due_in = validation.usable().map(|UsableCredential { identity, chain, .. }| {
        due_in(&identity.certificate, chain, inputs.obtained, (inputs.clocks, inputs.now))
    });
    let need = need(inputs.secret_name, &validation, due_in, false);
    let sentence = match &need {
        Need::Certificate(why) => Some(why.sentence.clone()),
        _ => None,
    };
    let (csr, csr_object) = observe_csr(inputs, &need);
    let mut observed = ObservedCredential {
        bootstrap: None,
        usable: validation.usable().is_some(),
        validation,
        data,
        need,
        requester: Some(Requester::Agent),
        requester_hub: Some(inputs.hub.clone()),
        requester_open: inputs.csr.is_some(),
        selecting: false,
        sentence,
        session: SessionChange::Nothing,
        csr,
        csr_object,
        pending: None,
        again: due_in.filter(|left| !left.is_zero()).map(|left| inputs.now + left),
    };
    if let (ObservedCsr::Present(status), Some(request)) = (&observed.csr, inputs.request) {
        // The manager of the add-on approves it, or a person.
        observed.pending = status.pending_sentence(&request.name, true);
    }
    observed
}

fn validated(inputs: &RegistrationInputs<'_>) -> (Data, Validation) {
    match content(inputs.secret) {
        Ok(data) => {
            let validation = validate(&data, inputs);
            (data, validation)
        }
        Err(unusable) => (Data::new(), Validation::Unusable(unusable)),
    }
}

/// Validates certificate and key, and what is next to them.
fn validate(data: &Data, inputs: &RegistrationInputs<'_>) -> Validation {
    let unusable = |(event, reason)| Validation::Unusable(UnusableCredential { reason, event });
    let (identity, chain) = match certificate(data, &inputs.template.subject, inputs.clocks) {
        Ok(good) => good,
        Err(defect) => return unusable(defect),
    };
    let mut stale = !said(data, CLUSTER_NAME, &inputs.names.cluster);
    if inputs.is_kube_client {
        let known = Hub::of_secret("", data).ok();
        if let Some(word) = known.and_then(|known| known.differs_from(inputs.hub)) {
            return unusable((OTHER_DATA, format!("is for another hub: the {word} differs")));
        }
        stale |= config(data, &identity).is_err();
    }
    let hub = inputs.hub.clone();
    Validation::Usable(UsableCredential { identity, chain, hub, config: None, stale })
}

/// The CSR of the stored request: the kept one with the certificate, or else the watched one.
fn observe_csr(
    inputs: &RegistrationInputs<'_>,
    need: &Need,
) -> (ObservedCsr, Option<serde_json::Value>) {
    let (Need::Certificate(_), Some(request)) = (need, inputs.request) else {
        return (ObservedCsr::Awaited, None);
    };
    let object = match (inputs.issued, &inputs.csr) {
        (Some(issued), _) => &issued.csr,
        (None, None) => return (ObservedCsr::Unwatched, None),
        (None, Some(CachedObject::Unknown)) => return (ObservedCsr::Unknown, None),
        (None, Some(CachedObject::Absent)) => return (ObservedCsr::Absent, None),
        (None, Some(CachedObject::Object(csr))) => csr,
    };
    let judge = Judge {
        request,
        template: inputs.template,
        posted_uid: inputs.uid,
        agent: &inputs.names.user(),
        by_agent: true,
        clocks: inputs.clocks,
    };
    (ObservedCsr::Present(evaluate(object, &judge)), Some(object.clone()))
}

#[cfg(test)]
mod tests;
