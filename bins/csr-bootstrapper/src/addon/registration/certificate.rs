//! Certificate of an add-on: one turn of its machine, and the effects of the actions.

use std::time::Instant;

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    log_line::seconds,
    log_object,
};
use log::Level;

use super::{
    Context, LONGEST_WAIT, Registration, RegistrationSecret, longest_wait,
    observe::{RegistrationInputs, observe},
    secret::SecretReader,
    store::StoredRegistration,
    token::TOKEN,
};
use crate::{
    addon::managed_cluster_addon::ROTATED,
    cached::CachedObject,
    certificate::{
        CsrTemplate,
        csr::{CSRS, CertificateRequest, KUBE_API_SERVER_CLIENT},
        csr_status::CsrFailure,
        deadline::{least_use, rotated_message},
        machine::{CertificateAction, CsrMachine},
        need::{Need, Requester},
        observe::ObservedCredential,
        store::SecretValues,
    },
    conditions::Condition,
    identity::CLUSTER_NAME,
    state::Rotated,
    status_writer::WritePace,
};

/// A turn ends after so many preparations, whatever is left.
const MOST_PREPARATIONS: usize = 8;
/// What the Secret of a token has.
const KEYS_OF_TOKENS: &[&str] = &[TOKEN];

/// The certificate of one registration.
pub(super) struct CertificateRegistration {
    pub(super) template: CsrTemplate,
    pub(super) secret: SecretReader,
    pub(super) machine: CsrMachine,
    /// The stored request is new: it has no CSR yet.
    pub(super) fresh: bool,
    /// The CSR that is awaited.
    awaited: Option<String>,
    errors: Backoff,
    pub(super) rotated: Option<Rotated>,
    /// The pace of tidying up.
    tidying: WritePace,
}

impl CertificateRegistration {
    /// Starts with the request that an earlier process stored.
    pub(super) fn new(template: CsrTemplate, request: Option<CertificateRequest>) -> Self {
        Self {
            template,
            secret: SecretReader::default(),
            machine: CsrMachine::new(request),
            fresh: false,
            awaited: None,
            errors: Backoff::new(LONGEST_WAIT),
            rotated: None,
            tidying: WritePace::new(Instant::now()),
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
            self.machine.stored(context.store.request(secret, &template));
            self.template = template;
            self.fresh = false;
        }
    }

    /// The condition about the certificate, once there is something to say.
    pub(super) fn condition(&self) -> Option<(&'static str, Condition)> {
        Some((ROTATED, self.rotated.as_ref()?.condition()))
    }

    /// Returns whether a CSR is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// Does what is due; returns when to come again if nothing changes.
    ///
    /// # Errors
    /// As the cluster of the Secret says.
    pub(super) fn reconcile(
        &mut self,
        registration: &Registration,
        context: &mut Context<'_>,
    ) -> Result<Instant> {
        if let Some(template) = registration.credential.template(self.secret.seen()) {
            self.set_template(template, &registration.secret, context);
        }
        for _ in 0..MOST_PREPARATIONS {
            let (observed, now) = (self.observe(registration, context), Instant::now());
            self.machine.saw(&observed, now);
            let action = self.machine.next(&observed, now);
            if let CertificateAction::Wait(until) = action {
                self.announce_usable(&observed);
                let until = observed.again.map_or(until, |again| until.min(again));
                let is_settled = matches!(observed.need, Need::Nothing(_));
                let is_done = is_settled && self.machine.request().is_none();
                let again = is_done.then(|| self.tidy_up(registration, context)).flatten();
                return Ok(again.map_or(until, |again| until.min(again)));
            }
            if !action.is_preparation() {
                let result = self.perform(&action, &observed, registration, context);
                self.conclude(registration, result);
                break;
            }
            self.prepare(&action, &observed, registration, context);
        }
        Ok(Instant::now())
    }

    fn observe(&self, registration: &Registration, context: &Context<'_>) -> ObservedCredential {
        let (request, now) = (self.machine.open_request(), Instant::now());
        let hub = &context.session.hub;
        observe(&RegistrationInputs {
            secret_name: &registration.secret.sentence_name(),
            secret: self.secret.seen(),
            template: &self.template,
            is_kube_client: self.template.signer == KUBE_API_SERVER_CLIENT,
            names: context.names,
            hub,
            obtained: self.machine.obtained(),
            request,
            uid: self.machine.uid(),
            issued: self.machine.issued(),
            csr: request.and_then(|request| context.csrs.seen(&request.name, now)),
            clocks: context.agent.clocks(),
            now,
        })
    }

    /// An earlier process may have ended before it reported its certificate, and somebody may have put one there.
    fn announce_usable(&mut self, observed: &ObservedCredential) {
        let is_settled = matches!(observed.need, Need::Nothing(_));
        let is_told = self.rotated.as_ref().is_some_and(Rotated::is_done);
        if let Some(usable) = observed.validation.usable().filter(|_| is_settled && !is_told) {
            let pem = &usable.identity.certificate;
            self.rotated = Some(Rotated::Done(rotated_message(pem)));
        }
    }

    fn prepare(
        &mut self,
        action: &CertificateAction,
        observed: &ObservedCredential,
        registration: &Registration,
        context: &mut Context<'_>,
    ) {
        let target = registration.secret.target();
        match action {
            CertificateAction::AnnounceNeed => {
                if let Some(sentence) = &observed.sentence {
                    log_object!(Level::Info, target; "requesting a certificate: {sentence}");
                }
                self.machine.need_announced(observed.sentence.clone());
            }
            CertificateAction::AnnouncePending { overdue } => {
                let level = if *overdue { Level::Warn } else { Level::Info };
                let sentence = observed.pending.as_deref().unwrap_or_default();
                log_object!(level, target; "{sentence}");
                self.machine.pending_announced(*overdue);
            }
            CertificateAction::WatchCsr => self.watch(context),
            _ => self.close(context),
        }
    }

    fn watch(&mut self, context: &mut Context<'_>) {
        let Some(request) = self.machine.request() else { return };
        let known = if self.fresh { CachedObject::Absent } else { CachedObject::Unknown };
        let name = request.name.clone();
        let (of, cluster) = ((context.agent, &context.session.client), &context.names.cluster);
        if let Err(error) = context.csrs.wait_for(of, cluster, &name, known) {
            let target = CSRS.cluster_object(&name);
            log_object!(Level::Debug, target, error:% = error; "the CSR is not watched");
        }
        self.awaited = Some(name);
        self.machine.watched();
    }

    /// Awaits no CSR any more.
    pub(super) fn close(&mut self, context: &mut Context<'_>) {
        if let Some(name) = self.awaited.take() {
            context.csrs.forget(&name);
        }
        self.machine.closed();
    }

    fn perform(
        &mut self,
        action: &CertificateAction,
        observed: &ObservedCredential,
        registration: &Registration,
        context: &mut Context<'_>,
    ) -> Result<()> {
        match action {
            CertificateAction::CountPending => self.count_pending(registration, context),
            CertificateAction::StoreRequest => self.store_request(registration, context),
            CertificateAction::CreateCsr => self.create_csr(context),
            CertificateAction::GetCsr => self.get_csr(context),
            CertificateAction::ConfirmGone => self.confirm_gone(context),
            CertificateAction::SaveCertificate(pem) => {
                self.save(pem, observed, registration, context)
            }
            CertificateAction::RepairSecret => self.repair(registration, context),
            CertificateAction::DeleteRequest => self.delete_request(registration, context),
            CertificateAction::AbandonCsr(failure) => {
                self.abandon(failure, context);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Logs a failure, and backs off.
    fn conclude(&mut self, registration: &Registration, result: Result<()>) {
        let Err(error) = result else {
            self.errors.succeeded();
            return;
        };
        let now = Instant::now();
        let retry = self.errors.failed(&error, now, fastrand::f64());
        let wait = retry.wait.min(longest_wait(&error));
        self.machine.failed(now, wait, None);
        let level = if retry.should_log { Level::Warn } else { Level::Debug };
        log_object!(
            level, registration.secret.target(), error:% = error, retry_in = seconds(wait);
            "managing the certificate of an add-on failed"
        );
    }

    fn store_request(
        &mut self,
        registration: &Registration,
        context: &mut Context<'_>,
    ) -> Result<()> {
        // The answer to an earlier write was lost, or it came late: another one in its place might be posted too.
        let there = context.store.request(&registration.secret, &self.template);
        if there.is_some() && there.as_ref() != self.machine.request() {
            self.machine.stored(there);
            self.fresh = false;
            return Ok(());
        }
        let request = CertificateRequest::new(&self.template)?;
        let stored = StoredRegistration {
            addon: registration.addon.clone(),
            request: Some(request.clone()),
        };
        match context.store.set(&registration.secret, stored) {
            Ok(()) => {
                self.machine.stored(Some(request));
                self.fresh = true;
                Ok(())
            }
            // Another writer was faster: its request counts.
            Err(Error::AlreadyExists(_) | Error::Conflict(_) | Error::NotFound(_)) => {
                let request = context.store.request(&registration.secret, &self.template);
                self.machine.stored(request);
                self.fresh = false;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn save(
        &mut self,
        pem: &[u8],
        observed: &ObservedCredential,
        registration: &Registration,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Some(request) = self.machine.request() else { return Ok(()) };
        let mut values = self.other_values(context);
        values.insert("tls.crt", pem.to_vec().into());
        values.insert("tls.key", request.key.as_bytes().to_vec().into());
        let (agent, secret) = (context.agent, &registration.secret);
        self.secret.save(agent, secret, &values, KEYS_OF_TOKENS)?;
        let (used, now) = (least_use(pem, &agent.clocks()), Instant::now());
        let regular = matches!(&observed.need, Need::Certificate(why) if why.regular);
        self.machine.saved(pem, now + used, regular, now);
        self.close(context);
        self.rotated = Some(Rotated::Done(rotated_message(pem)));
        log_object!(Level::Info, secret.target(); "the certificate of an add-on was saved");
        Ok(())
    }

    fn repair(&mut self, registration: &Registration, context: &Context<'_>) -> Result<()> {
        let values = self.other_values(context);
        let (agent, secret) = (context.agent, &registration.secret);
        self.secret.save(agent, secret, &values, KEYS_OF_TOKENS)?;
        self.machine.repaired(Instant::now());
        log_object!(Level::Info, secret.target(); "the credential of an add-on was repaired");
        Ok(())
    }

    /// What is next to certificate and key. As in upstream there is no `agent-name`.
    fn other_values(&self, context: &Context<'_>) -> SecretValues {
        let cluster = context.names.cluster.clone();
        let mut values = SecretValues::from([(CLUSTER_NAME, cluster.into_bytes().into())]);
        if self.template.signer == KUBE_API_SERVER_CLIENT {
            let kubeconfig = context.session.hub.kubeconfig();
            values.insert("kubeconfig", kubeconfig.into_bytes().into());
        }
        values
    }

    fn delete_request(
        &mut self,
        registration: &Registration,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let stored = StoredRegistration { addon: registration.addon.clone(), request: None };
        context.store.set(&registration.secret, stored)?;
        self.machine.stored(None);
        Ok(())
    }

    /// Deletes a stored request of another template, which the add-on wanted for a while; returns when to try again,
    /// if there is one.
    fn tidy_up(
        &mut self,
        registration: &Registration,
        context: &mut Context<'_>,
    ) -> Option<Instant> {
        let now = Instant::now();
        context.store.get(&registration.secret)?.request.as_ref()?;
        if now >= self.tidying.not_before {
            match self.delete_request(registration, context) {
                Ok(()) => drop(self.tidying.wrote(now)),
                Err(error) => drop(self.tidying.failed(&error, now)),
            }
        }
        Some(self.tidying.not_before)
    }

    fn abandon(&mut self, failure: &CsrFailure, context: &mut Context<'_>) {
        let name = self.machine.request().map_or_else(String::new, |it| it.name.clone());
        let requester = Some(Requester::Agent);
        let rest = self.machine.ended(failure, requester, Instant::now(), fastrand::f64());
        self.close(context);
        let sentence = format!("CSR {name} {}", failure.sentence());
        log_object!(
            Level::Warn, CSRS.cluster_object(&name), retry_in = seconds(rest);
            "{sentence}"
        );
        let failed = format!("Failed to rotated client certificate {sentence}");
        self.rotated = Some(Rotated::Failed(failed));
    }
}
