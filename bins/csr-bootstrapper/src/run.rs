//! Threads of the program: one for the credential, one for each watch, and those that report to the hub.
//! Only the leader of the replicas works.

use std::{
    sync::{Arc, mpsc::channel},
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    client::Timeouts,
    error::{Error, Result},
    log_line::seconds,
    log_object,
    stop::Stop,
};
use kubeconfig::secret;
use log::Level;
use serde_json::Value;
use sidecar::{
    diagnostics,
    flags::Flags,
    leadership::Leadership,
    runtime::{self, End},
};

use crate::{
    addon,
    agent::Agent,
    cached::CachedObject,
    capacity,
    certificate::{CertificateManager, OnceGoal, csr::self_signed, ready, store},
    claim, files, hub_selection,
    identity::{self, AgentNames, NameSources, ResolvedNames},
    managed_namespace,
    managedcluster::{self, ManagedClusterLease},
    report::Reporter,
    settings::{LOCK, Settings},
    sources,
};

/// A single check has time for one request to fail and another to succeed.
const LONGEST_CHECK: Duration = Duration::from_secs(2 * Timeouts::REQUEST.as_secs());
/// The longest wait between two attempts at the start.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Works until `stop` is raised, or with `-once` until the credential is there.
///
/// # Errors
/// Refusals at the start (a kubeconfig that cannot be used, a port that cannot be served), the loss of the
/// lead, and with `-once` the reason why there is no credential.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    settings.log_dropped();
    let agent = Arc::new(Agent::new(settings, flags, stop)?);
    if let Some(limit) = settings.once {
        return once(&agent, limit);
    }
    let leadership = match settings.election {
        Some(timing) => Leadership::campaign((&settings.namespace, LOCK), timing, flags, stop)?,
        None => Leadership::without_election(stop),
    };
    let result = lead(&agent, &leadership, flags);
    // After an error too: a leader releases its Lease.
    stop.raise();
    leadership.wait_for_release(Instant::now());
    result.map(|()| End::Stopped)
}

/// Works as soon as this replica leads, until the end of the process.
fn lead(agent: &Arc<Agent>, leadership: &Arc<Leadership>, flags: &Flags) -> Result<()> {
    let lease = Arc::new(ManagedClusterLease::new());
    let report =
        Reporter { agent: agent.clone(), lease: lease.clone(), leadership: leadership.clone() };
    let https = match &agent.settings.https {
        Some(https) => {
            let (certificate, key) = self_signed()?;
            Some(https.listen(certificate, key)?)
        }
        None => None,
    };
    diagnostics::serve(flags, https, &agent.stop, report)?;
    if !leadership.wait_until_leading() {
        return Ok(());
    }
    let Some(prepared) = prepare(agent, &|| leadership.leads()) else {
        return leadership.wait_until_lost();
    };
    follow_sources(agent, &prepared.names, &lease)?;
    runtime::spawn_with("credential", agent, move |agent| {
        prepared.manager(agent).run(None);
    })?;
    if let (true, Some(directory)) = (agent.settings.write_files, &agent.settings.hub_directory) {
        let (agent, directory) = (agent.clone(), directory.clone());
        runtime::spawn("files", move || files::keep(&agent, &directory))?;
    }
    runtime::spawn_with("cluster", agent, managedcluster::follow)?;
    runtime::spawn_with("status", agent, managedcluster::run_status)?;
    for &kind in &agent.settings.claim_kinds {
        runtime::spawn_with("claims", agent, move |agent| claim::follow(agent, kind))?;
    }
    if agent.settings.managed_namespaces {
        let agent = agent.clone();
        runtime::spawn("managed-namespaces", move || managed_namespace::run(&agent))?;
    }
    if agent.settings.report_capacity {
        runtime::spawn_with("nodes", agent, capacity::follow)?;
    }
    if agent.settings.addon_management {
        let agent = agent.clone();
        runtime::spawn("addons", move || addon::follow(&agent))?;
    }
    runtime::spawn_with("heartbeat", agent, move |agent| lease.run(agent))?;
    leadership.wait_until_lost()
}

/// Obtains a credential and exits, within `limit`.
fn once(agent: &Arc<Agent>, limit: Duration) -> Result<End> {
    let (goal, time) = match limit {
        Duration::ZERO => (OnceGoal::Check, LONGEST_CHECK),
        limit => (OnceGoal::Obtain, limit),
    };
    let (end, ended) = channel();
    let shared = agent.clone();
    runtime::spawn("credential", move || {
        // After the deadline nobody listens.
        let _ = end.send(obtain(&shared, goal));
        shared.stop.raise();
    })?;
    let stopped = agent.stop.wait(time);
    let why = || ready(agent).err().unwrap_or_default();
    match (ended.try_recv(), stopped) {
        (Ok(Err(error)), _) => Err(error),
        (Ok(Ok(true)), _) => Ok(End::Done),
        (Err(_), true) => {
            Err(Error::bad_config(format!("stopped before there was a credential: {}", why())))
        }
        _ => Err(Error::bad_config(match limit.as_secs() {
            0 => format!("there is no credential: {}", why()),
            seconds => format!("no credential after {seconds} s: {}", why()),
        })),
    }
}

/// Works until the goal is reached; returns whether the credential is usable.
fn obtain(agent: &Arc<Agent>, goal: OnceGoal) -> Result<bool> {
    let Some(prepared) = prepare(agent, &|| true) else { return Ok(false) };
    follow_sources(agent, &prepared.names, &Arc::default())?;
    Ok(prepared.manager(agent).run(Some(goal)) == Some(true))
}

/// Starts the threads that follow the credential's Secret and the bootstrap kubeconfigs, and select one of several hubs.
fn follow_sources(
    agent: &Arc<Agent>,
    names: &AgentNames,
    lease: &Arc<ManagedClusterLease>,
) -> Result<()> {
    runtime::spawn_with("secret", agent, sources::follow_credential)?;
    for index in 0..agent.settings.bootstraps.len() {
        runtime::spawn_with("bootstrap", agent, move |agent| {
            sources::follow_bootstrap(agent, index);
        })?;
    }
    if agent.settings.hub_connection_timeout.is_some() {
        let (lease, names) = (lease.clone(), names.clone());
        runtime::spawn_with("hubs", agent, move |agent| hub_selection::run(agent, &names, &lease))?;
    }
    Ok(())
}

/// The start of the credential's thread.
struct Prepared {
    names: AgentNames,
    /// The stored request.
    stored: Option<Value>,
}

impl Prepared {
    fn manager(self, agent: &Agent) -> CertificateManager<'_> {
        CertificateManager::new(agent, self.names, self.stored)
    }
}

/// Reads the credential's Secret and the stored request, and resolves the agent's names, while `goes_on`; `None` after that
/// or at the end of the process.
fn prepare(agent: &Agent, goes_on: &dyn Fn() -> bool) -> Option<Prepared> {
    let mut backoff = Backoff::new(LONGEST_WAIT);
    while goes_on() {
        agent.beat();
        match try_prepare(agent) {
            Ok(prepared) => return Some(prepared),
            Err(error) => {
                agent.report(|status| status.detail = Some(error.to_string()));
                let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
                if retry.should_log {
                    let retry_in = seconds(retry.wait);
                    log_object!(
                        Level::Warn, agent.credential(), error:% = error, retry_in = retry_in;
                        "the agent's names and its stored request cannot be read"
                    );
                }
                if rest(agent, retry.wait) {
                    return None;
                }
            }
        }
    }
    None
}

fn try_prepare(agent: &Agent) -> Result<Prepared> {
    // First, so that names in a credential that comes meanwhile are seen.
    let stored = store::pending(agent)?;
    let credential = store::credential(agent)?;
    agent.update(|state| state.credential = credential.clone());
    let ResolvedNames { names, ignored } = resolve(agent, &credential, stored.as_ref())?;
    for ignored in &ignored {
        log_object!(Level::Warn, agent.credential(), reason = ignored; "a name is ignored");
    }
    let AgentNames { cluster, agent: id } = &names;
    log::info!(cluster = cluster, agent = id; "the agent's names are known");
    let data = stored.as_ref().and_then(|secret| secret::data(secret).ok());
    let server = data.as_ref().and_then(|data| str::from_utf8(data.get(store::HUB_SERVER)?).ok());
    agent.report(|status| status.detail = None);
    agent.update(|state| {
        state.hubs.joined = server.map(str::to_owned);
        state.names = Some(names.clone());
    });
    Ok(Prepared { names, stored })
}

/// Waits in pieces, so that the loop counts as alive however long a server asks it to stay away.
fn rest(agent: &Agent, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        agent.beat();
        let left = until.saturating_duration_since(Instant::now());
        if agent.stop.wait(left.min(Stop::SLICE)) || left.is_zero() {
            return agent.stop.raised();
        }
    }
}

fn resolve(
    agent: &Agent,
    credential: &CachedObject,
    stored: Option<&Value>,
) -> Result<ResolvedNames> {
    let settings = &agent.settings;
    let secret = match credential {
        CachedObject::Object(secret) => secret::data(secret).ok(),
        _ => None,
    };
    let pending = stored.and_then(|secret| secret::data(secret).ok());
    let directory = settings.hub_directory.as_deref().map(identity::in_directory);
    let known = NameSources {
        flags: (settings.cluster_name.as_deref(), settings.agent_id.as_deref()),
        secret: secret.as_ref(),
        directory: directory.as_ref(),
        pending: pending.as_ref(),
    };
    Ok(identity::resolve(&known, &identity::random()?))
}
