//! Report for the diagnostics endpoint: liveness, readiness and metrics.

use std::{sync::Arc, time::SystemTime};

use apiclient::{certificate, client::LIST_TIMEOUT, reflector::Lookup};
use kubeconfig::secret;
use sidecar::{
    diagnostics::{LOOP_TIMEOUT, Report, stuck},
    leadership::Leadership,
    metrics::{CERTIFICATE_EXPIRES, Family, Metrics, timestamp},
};

use crate::{Duty, agent::Agent, conditions::accepted, files::is_published};

const POSTED: Family =
    Family::counter("sidecar_csr_posted_total", "CertificateSigningRequests posted.");
const ENDED: Family = Family::counter(
    "sidecar_csr_ended_total",
    "CertificateSigningRequests that ended, by the Event's reason.",
);
const PENDING: Family = Family::gauge(
    "sidecar_csr_pending_since_timestamp_seconds",
    "Time since which a CertificateSigningRequest has been pending, in seconds since the epoch; absent while none is.",
);
const SAVED: Family = Family::gauge(
    "sidecar_certificate_saved_timestamp_seconds",
    "Time at which this process last saved a certificate, in seconds since the epoch.",
);

pub(crate) struct Reporter {
    pub(crate) agent: Arc<Agent>,
    pub(crate) leadership: Arc<Leadership>,
}

impl Report for Reporter {
    fn healthy(&self) -> Result<(), String> {
        let credential = self.agent.read(|state| state.status.beat);
        let loops = [("credential", credential), ("heartbeat", self.agent.heartbeat().beat)];
        // A loop may have to read a list.
        let longest = LOOP_TIMEOUT + LIST_TIMEOUT;
        match loops.iter().find(|(_, beat)| stuck(*beat, longest)) {
            Some((name, _)) => Err(format!("the loop for the {name} is stuck")),
            None => self.duty().map_or(Ok(()), Duty::healthy),
        }
    }

    fn ready(&self) -> Result<(), String> {
        // A standby replica is ready.
        if self.leadership.follows() {
            return Ok(());
        }
        ready(&self.agent)?;
        self.duty().map_or(Ok(()), Duty::ready)
    }

    /// Returns one line for each problem, for the selected hub of several, and for a cluster that waits for acceptance:
    /// people forget that step.
    fn remarks(&self) -> String {
        let agent = &self.agent;
        let mut remarks = agent.watch_errors();
        remarks.extend(agent.bootstrap_error());
        remarks.extend(agent.selected_hub().map(|(_, url)| format!("hub {url} is selected")));
        let status = agent.read(|state| state.status.clone());
        if let (None, Some(detail)) = (status.trouble(), status.progress()) {
            remarks.push(format!("the certificate: {detail}"));
        }
        if let Some(session) = agent.session() {
            let name = &session.names.cluster;
            remarks.extend(match session.managed_cluster.get(name) {
                Lookup::Object(cluster) if !accepted(&cluster) => Some(format!(
                    "the hub has not accepted the cluster: kubectl patch managedcluster {name} --type merge \
                     -p '{{\"spec\":{{\"hubAcceptsClient\":true}}}}'"
                )),
                Lookup::Absent => Some(format!("the hub has no ManagedCluster {name}")),
                _ => None,
            });
        }
        let failing = self.agent.heartbeat().failing();
        remarks.extend(failing.map(|why| format!("the heartbeat fails: {why}")));
        remarks.extend(self.duty().into_iter().flat_map(Duty::remarks));
        remarks.into_iter().map(|remark| remark + "\n").collect()
    }

    fn metrics(&self) -> String {
        let agent = &self.agent;
        let mut metrics = Metrics::default();
        metrics.add_process(agent.program.name, agent.started);
        self.leadership.add_to(&mut metrics);
        let status = agent.read(|state| state.status.clone());
        metrics.add(POSTED, &[], status.posted);
        for (reason, count) in &status.ended {
            metrics.add(ENDED, &[("reason", reason)], count);
        }
        let expires = expiry(agent);
        for (family, time) in
            [(PENDING, status.pending), (SAVED, status.saved), (CERTIFICATE_EXPIRES, expires)]
        {
            if let Some(time) = time {
                metrics.add(family, &[], timestamp(time));
            }
        }
        let session = agent.session().map(|session| session.client.clone());
        let requester =
            agent.read(|state| state.requester.as_ref().map(|csrs| csrs.client.clone()));
        for (target, client, requests) in [
            ("hub", session, &agent.session_requests),
            ("bootstrap", requester, &agent.other_requests),
        ] {
            match client {
                Some(client) => metrics.add_client(target, &client),
                None => metrics.add_requests(target, requests),
            }
        }
        self.agent.heartbeat().add_to(&mut metrics, &[]);
        metrics.add_client("management", &agent.management);
        if let Some(spoke) = &agent.other_spoke {
            metrics.add_client("spoke", spoke);
        }
        if let Some(duty) = self.duty() {
            duty.add_to(&mut metrics);
        }
        metrics.to_string()
    }
}

impl Reporter {
    fn duty(&self) -> Option<&dyn Duty> {
        self.agent.program.duty.as_deref()
    }
}

/// Fails while the credential is unusable or its files are not written, with the reason and the progress.
pub(crate) fn ready(agent: &Agent) -> Result<(), String> {
    let status = agent.read(|state| state.status.clone());
    let Some(trouble) = status.trouble() else {
        return match agent.settings.write_files && !is_published(agent) {
            true => Err("the files of -hub-kubeconfig-dir are not written yet".into()),
            false => Ok(()),
        };
    };
    // There is no progress while the Secret cannot be read.
    let detail = status.progress().or_else(|| agent.credential.last_error());
    Err(detail.map_or_else(|| trouble.to_owned(), |detail| format!("{trouble}; {detail}")))
}

/// Returns the expiry of the certificate in use, or else of the certificate in the Secret.
fn expiry(agent: &Agent) -> Option<SystemTime> {
    if let Some(session) = agent.session() {
        return session.client.certificate_expiry();
    }
    let data = secret::data(&*agent.credential_secret()?).ok()?;
    let chain = certificate::chain(data.get("tls.crt")?).ok()?;
    chain.iter().map(|certificate| certificate.not_after).min()
}
