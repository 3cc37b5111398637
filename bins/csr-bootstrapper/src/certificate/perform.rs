//! Effects of the actions on the session, the Secrets and the Events; `hub.rs` has those on the hub.

use std::time::{Instant, SystemTime};

use apiclient::{
    error::{Error, Result},
    log_object,
    resource::SECRETS,
};
use kubeconfig::secret;
use log::Level;
use serde_json::Value;

use super::{
    csr::CertificateRequest,
    csr_status::CsrFailure,
    csr_watch::CsrWatcher,
    deadline,
    hub::HubRequester,
    machine::{CertificateAction, CsrMachine},
    need::{Need, Requester},
    observe::{Attempts, ObservedCredential, SessionChange},
    session::SessionControl,
    store,
};
use crate::{agent::Agent, cached::CachedObject, identity::AgentNames, state::Rotated};

/// Performs actions and reports the results to the machine.
pub(crate) struct Performer<'a> {
    agent: &'a Agent,
    names: AgentNames,
    session: SessionControl,
    hub: HubRequester<'a>,
    /// The Secret of the stored request.
    stored: Option<Value>,
    attempts: Attempts,
}

impl<'a> Performer<'a> {
    pub(crate) fn new(agent: &'a Agent, names: AgentNames, stored: Option<Value>) -> Self {
        Self {
            agent,
            hub: HubRequester::new(agent, names.clone()),
            names,
            session: SessionControl::default(),
            stored,
            attempts: Attempts::default(),
        }
    }

    pub(crate) fn session(&self) -> &SessionControl {
        &self.session
    }

    /// The client and the watch of the requester.
    pub(crate) fn csr_watcher(&self) -> &CsrWatcher {
        self.hub.csr_watcher()
    }

    /// The attempts of this turn.
    pub(crate) fn attempts(&self) -> Attempts {
        self.attempts
    }

    /// Begins a turn, in which failed attempts may be repeated.
    pub(crate) fn begin_turn(&mut self) {
        self.attempts = Attempts::default();
    }

    /// Performs a preparation of the next action; a failure is left to the next turn.
    pub(crate) fn prepare(
        &mut self,
        machine: &mut CsrMachine,
        action: &CertificateAction,
        observed: &ObservedCredential,
    ) {
        match action {
            CertificateAction::AnnounceNeed => self.announce_need(machine, observed),
            CertificateAction::AnnouncePending { overdue } => {
                self.announce_pending(machine, observed, *overdue);
            }
            CertificateAction::CloseRequester => {
                self.hub.close();
                machine.closed();
            }
            CertificateAction::WatchCsr => {
                self.attempts.watch = Some(self.hub.watch_csr(machine, observed));
            }
            _ => self.change_session(&observed.session),
        }
    }

    /// Performs `action`.
    ///
    /// # Errors
    /// As the clusters say; the action is tried again.
    pub(crate) fn perform(
        &mut self,
        machine: &mut CsrMachine,
        action: &CertificateAction,
        observed: &ObservedCredential,
    ) -> Result<()> {
        match action {
            CertificateAction::StoreRequest => self.store_request(machine),
            CertificateAction::SaveCertificate(pem) => self.save(machine, pem, observed),
            CertificateAction::RepairSecret => self.repair(machine, observed),
            CertificateAction::DeleteRequest => self.delete_request(machine),
            CertificateAction::AbandonCsr(failure) => {
                self.abandon(machine, failure, observed.requester);
                Ok(())
            }
            CertificateAction::CreateCsr => {
                self.check_secrets(machine)?;
                self.hub.request(machine, action, observed)
            }
            action if action.is_on_the_hub() => self.hub.request(machine, action, observed),
            _ => Ok(()),
        }
    }

    fn change_session(&mut self, change: &SessionChange) {
        let result = match change {
            SessionChange::Nothing => return,
            SessionChange::Announce(pem) => {
                return self.session.announce(self.agent, &self.names, pem);
            }
            // The requester may watch the old hub with a client that is about to be closed.
            SessionChange::Close => {
                self.hub.close();
                self.session.close(self.agent);
                Ok(())
            }
            SessionChange::Open(config, hub) => {
                self.hub.close();
                self.session.open(self.agent, &self.names, config, hub)
            }
            SessionChange::Swap(config, hub) => self.session.swap(self.agent, config, hub),
        };
        self.attempts.session = true;
        if let Err(error) = result {
            log_object!(
                Level::Warn, self.agent.credential(), error:% = error;
                "keeping the current credentials"
            );
        }
    }

    /// Announces the need, with one Event for each new reason.
    fn announce_need(&self, machine: &mut CsrMachine, observed: &ObservedCredential) {
        self.agent.report(|status| status.detail = None);
        if let (Need::Certificate(why), Some(sentence)) = (&observed.need, &observed.sentence) {
            self.agent.record_event(why.event, false, sentence);
        }
        machine.need_announced(observed.sentence.clone());
    }

    /// Announces the approval that the CSR waits for: in the log at once, as an Event when it takes long.
    fn announce_pending(
        &self,
        machine: &mut CsrMachine,
        observed: &ObservedCredential,
        overdue: bool,
    ) {
        machine.pending_announced(overdue);
        let Some(sentence) = &observed.pending else { return };
        if overdue {
            self.agent.record_event("CSRPending", true, sentence);
        } else {
            log_object!(Level::Info, self.agent.credential(), event = "CSRPending"; "{sentence}");
            self.agent.report(|status| status.pending = Some(SystemTime::now()));
        }
    }

    /// Checks that both Secrets can be written: a certificate that cannot be saved is lost.
    fn check_secrets(&mut self, machine: &mut CsrMachine) -> Result<()> {
        if let CachedObject::Object(secret) = self.agent.read(|state| state.credential.clone()) {
            store::check_mutable(&self.agent.credential(), Some(&secret))?;
        }
        if self.check_stored().is_err() {
            // Somebody may have replaced it since.
            self.read_stored(machine)?;
        }
        self.check_stored()
    }

    fn check_stored(&self) -> Result<()> {
        let name = self.agent.settings.pending_secret();
        let target = SECRETS.object(&self.agent.settings.namespace, &name);
        store::check_mutable(&target, self.stored.as_ref())
    }

    /// Goes on with the request that is stored now.
    fn read_stored(&mut self, machine: &mut CsrMachine) -> Result<()> {
        self.stored = store::pending(self.agent)?;
        let data = self.stored.as_ref().map(secret::data).transpose()?;
        machine.stored(data.and_then(|data| CertificateRequest::of_secret(&data, &self.names)));
        Ok(())
    }

    fn store_request(&mut self, machine: &mut CsrMachine) -> Result<()> {
        self.check_secrets(machine)?;
        let request = CertificateRequest::new(&self.names.csr_template())?;
        let stored = store::store_request(self.agent, &request, &self.names, self.stored.as_ref());
        match stored {
            Ok(secret) => {
                self.stored = Some(secret);
                machine.stored(Some(request));
                Ok(())
            }
            // Another writer was faster: its request counts.
            Err(Error::AlreadyExists(_) | Error::Conflict(_) | Error::NotFound(_)) => {
                self.read_stored(machine)
            }
            // Without the right to create, a Secret that is there by now is filled next time.
            Err(error @ Error::Forbidden(_)) if self.stored.is_none() => {
                self.read_stored(machine)?;
                if self.stored.is_some() { Ok(()) } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }

    fn save(
        &mut self,
        machine: &mut CsrMachine,
        pem: &[u8],
        observed: &ObservedCredential,
    ) -> Result<()> {
        let Some(request) = machine.request() else { return Ok(()) };
        let (mut values, fallback) =
            store::other_values(&self.names, observed.requester_hub.as_ref(), &observed.validation);
        values.insert("tls.crt", pem.to_vec().into());
        values.insert("tls.key", request.key.as_bytes().to_vec().into());
        let name = request.name.clone();
        store::save(self.agent, &values, &fallback)?;
        let (used, now) =
            (deadline::least_use(pem, &self.agent.requester_clocks()), Instant::now());
        machine.saved(pem, now + used, lasted(machine, observed), now);
        self.agent.report(|status| status.count_end("Issued"));
        self.agent.report(|status| status.saved = Some(SystemTime::now()));
        self.hub.close();
        self.agent.set_rotated(Rotated::Done(deadline::rotated_message(pem)));
        let message = format!("the certificate of CSR {name} is in {}", self.agent.secret_name());
        self.agent.record_event("ClientCertificateCreated", false, &message);
        Ok(())
    }

    fn repair(&self, machine: &mut CsrMachine, observed: &ObservedCredential) -> Result<()> {
        let (values, fallback) =
            store::other_values(&self.names, observed.requester_hub.as_ref(), &observed.validation);
        store::save(self.agent, &values, &fallback)?;
        machine.repaired(Instant::now());
        let what = self.agent.secret_name();
        let message = format!("repaired the kubeconfig and the names in {what}");
        self.agent.record_event("SecretSave", false, &message);
        Ok(())
    }

    fn delete_request(&mut self, machine: &mut CsrMachine) -> Result<()> {
        if let Some(stored) = &self.stored {
            self.stored = store::empty_request(self.agent, stored)?;
            self.check_stored()?;
        }
        machine.stored(None);
        Ok(())
    }

    fn abandon(
        &mut self,
        machine: &mut CsrMachine,
        failure: &CsrFailure,
        requester: Option<Requester>,
    ) {
        let name = machine.request().map_or("", |request| &request.name);
        let sentence = format!("CSR {name} {}", failure.sentence());
        let rest = machine.ended(failure, requester, Instant::now(), fastrand::f64());
        self.hub.close();
        let failed = format!("Failed to rotated client certificate {sentence}");
        self.agent.set_rotated(Rotated::Failed(failed));
        let message = format!("{sentence}; requesting another one in {} s", rest.as_secs());
        self.agent.report(|status| status.count_end(failure.reason()));
        self.agent.record_event(failure.reason(), true, &message);
        self.agent.report(|status| status.detail = Some(message));
    }
}

/// Returns whether the certificate in the Secret is the last saved one and was used until it was due; an old one
/// that somebody restores is due too.
fn lasted(machine: &CsrMachine, observed: &ObservedCredential) -> bool {
    let current = observed.validation.usable().map(|usable| &usable.identity.certificate);
    let last = machine.obtained().map(|(pem, _)| pem);
    let due = matches!(&observed.need, Need::Certificate(why) if why.regular);
    due && last.is_none_or(|last| Some(last) == current)
}
