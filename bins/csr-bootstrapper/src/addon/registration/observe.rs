//! Observation of an add-on's certificate, for the machine that requests it. No I/O, no clock.

use std::time::Instant;

use shared::{
    kubeconfig::Hub,
    secret::{self, Data},
};

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
            NOT_VALID, OTHER_DATA, UNREADABLE, UnusableCredential, UsableCredential, Validation,
            certificate, config,
        },
    },
    clocks::Clocks,
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
    let unusable = |(event, reason)| Validation::Unusable(UnusableCredential { reason, event });
    let CachedObject::Object(secret) = inputs.secret else {
        let refusal = (NOT_VALID, "does not exist".to_owned());
        return (Data::new(), unusable(refusal));
    };
    let data = match secret::data(secret) {
        Ok(data) => data,
        Err(error) => {
            let refusal = (UNREADABLE, format!("cannot be read: {error}"));
            return (Data::new(), unusable(refusal));
        }
    };
    let validation = match certificate(&data, &inputs.template.subject, inputs.clocks) {
        Err(refusal) => unusable(refusal),
        Ok((identity, chain)) => {
            let known = Hub::of_secret("", &data).ok().filter(|_| inputs.is_kube_client);
            let moved = known.as_ref().and_then(|known| known.differs_from(inputs.hub));
            match moved {
                Some(word) => {
                    unusable((OTHER_DATA, format!("is for another hub: the {word} differs")))
                }
                None => {
                    let is_whole = !inputs.is_kube_client || config(&data, &identity).is_ok();
                    let stale = !is_whole || !said(&data, CLUSTER_NAME, &inputs.names.cluster);
                    let hub = inputs.hub.clone();
                    let config = None;
                    Validation::Usable(UsableCredential { identity, chain, hub, config, stale })
                }
            }
        }
    };
    (data, validation)
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
