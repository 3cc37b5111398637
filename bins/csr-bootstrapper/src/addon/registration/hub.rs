//! Requests to the hub for the certificate of an add-on.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use apiclient::{
    error::{Error, Result},
    json::Document,
    log_line::seconds,
    log_object,
    watch::{self, Selection},
};
use log::Level;

use super::{CertificateRegistration, Context, Registration};
use crate::{
    agent::PAGE,
    cached::CachedObject,
    certificate::{
        csr::{CLUSTER_LABEL, CSRS},
        csr_status::{ADDON_LABEL, MOST_PENDING, is_pending_of},
        need::Requester,
    },
    state::Rotated,
};

/// The time until a hub with too many requests is asked again.
const HALTED: Duration = Duration::from_secs(60);

impl CertificateRegistration {
    pub(super) fn count_pending(
        &mut self,
        registration: &Registration,
        context: &Context<'_>,
    ) -> Result<()> {
        let (cluster, addon) = (&context.names.cluster, &registration.addon);
        let labels = format!("{CLUSTER_LABEL}={cluster},{ADDON_LABEL}={addon}");
        let all = Selection::all(CSRS.everywhere());
        let selection = Selection { labels: &labels, page: PAGE, ..all };
        let (user, prefix) = (context.names.user(), &self.template.name_prefix);
        let mut pending = 0;
        let listed =
            watch::list(&context.session.client, &selection, &context.session.stop, &mut |csr| {
                let is_ours =
                    matches!(&csr, Document::Whole(csr) if is_pending_of(csr, prefix, &user));
                pending += usize::from(is_ours);
                ControlFlow::Continue(())
            });
        match listed {
            // Without the right to list requests one may still post.
            Err(Error::Forbidden(_)) => {}
            listed => listed?,
        }
        if pending < MOST_PENDING {
            self.machine.counted();
            return Ok(());
        }
        if self.rotated != Some(Rotated::Halted) {
            let halted = Rotated::Halted;
            log_object!(Level::Warn, registration.secret.target(); "{}", halted.message());
            self.rotated = Some(halted);
        }
        self.machine.halted(Requester::Agent, Instant::now(), HALTED);
        Ok(())
    }

    pub(super) fn create_csr(&mut self, context: &Context<'_>) -> Result<()> {
        let Some(request) = self.machine.request() else { return Ok(()) };
        let name = request.name.clone();
        let object = request.object(&self.template, context.agent.settings.expiration);
        let (client, target) = (&context.session.client, CSRS.cluster_object(&name));
        let events = context.csrs.events(&name);
        let csr = match client.create(&target, &object) {
            // The answer to an earlier attempt was lost.
            Err(Error::AlreadyExists(_)) => client.get(&target)?,
            Err(error) => {
                self.rotated = Some(Rotated::Failed(format!("Failed to create CSR {error}")));
                return Err(error);
            }
            Ok(csr) => {
                self.machine.posted(&csr);
                log_object!(Level::Info, target; "the CSR of an add-on was created on the hub");
                csr
            }
        };
        self.fresh = false;
        context.csrs.answered(&name, CachedObject::Object(csr), events);
        Ok(())
    }

    /// Reads the CSR while the watch does not show it.
    pub(super) fn get_csr(&self, context: &Context<'_>) -> Result<()> {
        let Some(request) = self.machine.request() else { return Ok(()) };
        let events = context.csrs.events(&request.name);
        let answer = context.session.client.get(&CSRS.cluster_object(&request.name));
        context.csrs.answered(&request.name, CachedObject::of(answer)?, events);
        Ok(())
    }

    /// Confirms that the CSR is gone: the watch may lag behind.
    pub(super) fn confirm_gone(&mut self, context: &Context<'_>) -> Result<()> {
        let Some(request) = self.machine.request() else { return Ok(()) };
        let (name, events) = (request.name.clone(), context.csrs.events(&request.name));
        let target = CSRS.cluster_object(&name);
        match CachedObject::of(context.session.client.get(&target))? {
            CachedObject::Absent => {
                let rest = self.machine.gone(Requester::Agent, Instant::now(), fastrand::f64());
                log_object!(
                    Level::Warn, target, retry_in = seconds(rest);
                    "the CSR is gone from the hub without an answer"
                );
            }
            csr => context.csrs.answered(&name, csr, events),
        }
        Ok(())
    }
}
