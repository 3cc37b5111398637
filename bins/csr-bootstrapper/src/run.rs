//! Threads of the program: for the sources, for the credential and, once the agent's names are known, for reports to
//! the hub. Only the leader among the replicas works.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use apiclient::{
    client::Timeouts,
    error::{Error, Result},
    log_object,
    stop::Stop,
};
use kubeconfig::secret::{self, Data};
use log::Level;
use sidecar::{
    diagnostics::{self, HttpsSettings},
    flags::Flags,
    leadership::{self, Election, Leadership},
    runtime::{self, End},
};

use crate::{
    Duty, Program, addon,
    agent::{self, Agent},
    bootstrap, capacity,
    certificate::{cluster::HUB_SERVER, io::RequestStore, manager::CertificateManager},
    claim, files, hub_selection,
    identity::{self, AgentNames},
    managed_namespace, managedcluster,
    pacing::Pace,
    report::{Reporter, ready},
    settings::Settings,
    state::CredentialState,
};

/// The time limit of a single check: one request may fail, and another one succeed.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2 * Timeouts::REQUEST.as_secs());
/// The interval at which a single run checks its credential.
const ONCE_INTERVAL: Duration = Duration::from_millis(200);

/// The interval of checks whether the credential is usable (ocm `pkg/registration/spoke/spokeagent.go`).
const READY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until `stop` is raised, or with `-once` until the credential is valid.
///
/// # Errors
/// Failures at the start (an invalid kubeconfig, an unusable port), the loss of the lead, and with `-once` the reason
/// why the credential is missing.
pub fn run(settings: &Settings, flags: &Flags, stop: &Stop, program: Program) -> Result<End> {
    let lease = (&*settings.namespace, program.lock);
    let agent = Arc::new(Agent::new(settings, flags, stop, program)?);
    if let Some(limit) = settings.once {
        return once(&agent, limit);
    }
    let election =
        settings.election.map(|timing| Election { lease, timing, delay: Duration::ZERO });
    leadership::run(election, flags, stop, |leadership| lead(&agent, leadership, flags))
}

/// Serves the endpoint, and starts all other threads once this replica leads.
fn lead(agent: &Arc<Agent>, leadership: &Arc<Leadership>, flags: &Flags) -> Result<()> {
    let report = Reporter { agent: agent.clone(), leadership: leadership.clone() };
    let https = agent.settings.https.as_ref().map(HttpsSettings::listen).transpose()?;
    diagnostics::serve(flags, https, report)?;
    if !leadership.wait_until_leading() {
        return Ok(());
    }
    let ended = start(agent)?;
    leadership.wait_until_lost()?;
    ended.try_recv().unwrap_or(Ok(()))
}

/// Waits for a valid credential, for `limit` at most; zero means a single check.
fn once(agent: &Arc<Agent>, limit: Duration) -> Result<End> {
    let ended = start(agent)?;
    let is_check = limit.is_zero();
    let deadline = Instant::now() + if is_check { CHECK_TIMEOUT } else { limit };
    let why = loop {
        let credential = agent.read(|state| state.status.credential.clone());
        if credential == CredentialState::Good {
            agent.stop.raise();
            return Ok(End::Done);
        }
        if is_check && credential != CredentialState::Unchecked {
            break "there is no credential".to_owned();
        }
        if agent.stop.wait(ONCE_INTERVAL) {
            break "stopped before there was a credential".to_owned();
        }
        if Instant::now() >= deadline {
            break format!("no credential after {} s", limit.as_secs());
        }
    };
    // The credential's thread ends early only with an error.
    if let Ok(Err(error)) = ended.try_recv() {
        return Err(error);
    }
    agent.stop.raise();
    let needs_repair = || format!("{} needs a repair", agent.secret_name());
    let reason = ready(agent).err().unwrap_or_else(needs_repair);
    Err(Error::bad_config(format!("{why}: {reason}")))
}

/// Starts the threads of the sources and of the credential; the receiver gets the error of the latter.
fn start(agent: &Arc<Agent>) -> Result<Receiver<Result<()>>> {
    for index in 0..agent.settings.bootstraps.len() {
        runtime::spawn_with("bootstrap", agent, move |agent| {
            let (source, store) = (&agent.settings.bootstraps[index], &agent.bootstraps[index]);
            let place = (&agent.management, &*agent.settings.namespace);
            bootstrap::follow(source, store, place, &agent.stop);
        })?;
    }
    let (end, ended) = channel();
    let working = agent.clone();
    runtime::spawn("credential", move || {
        // `work` returns before the end of the process only with an error.
        let _ = end.send(work(&working));
        working.stop.raise();
    })?;
    Ok(ended)
}

/// Resolves the names, starts all other threads, and manages the certificate until the end of the process.
fn work(agent: &Arc<Agent>) -> Result<()> {
    let Some(mut stored) = read_secrets(agent) else { return Ok(()) };
    runtime::spawn_with("secret", agent, agent::follow_credential)?;
    let pending = stored.read()?;
    let names = resolve_names(agent, pending)?;
    if let Some(timeout) = agent.settings.hub_connection_timeout {
        let server = pending.get(HUB_SERVER).map(|value| String::from_utf8(value.to_vec()));
        let (names, pending) = (names.clone(), server.and_then(std::result::Result::ok));
        runtime::spawn_with("hubs", agent, move |agent| {
            hub_selection::run(agent, &names.cluster, pending.as_deref(), timeout);
        })?;
    }
    if agent.settings.once.is_none() {
        report_to_hub(agent, &names)?;
    }
    CertificateManager::new(agent, names, stored).run();
    Ok(())
}

/// Starts the threads that use the credential.
fn report_to_hub(agent: &Arc<Agent>, names: &AgentNames) -> Result<()> {
    let settings = &agent.settings;
    let threads: [(_, _, fn(&Agent)); 6] = [
        ("files", settings.write_files, files::keep),
        ("cluster", true, managedcluster::follow),
        ("nodes", settings.report_capacity, |agent| {
            capacity::follow(&agent.nodes, agent.spoke(), &agent.stop);
        }),
        ("namespaces", settings.managed_namespaces, managed_namespace::follow),
        ("heartbeat", true, managedcluster::lease::run),
        ("status", true, managedcluster::status::run),
    ];
    for (name, is_wanted, run) in threads {
        if is_wanted {
            runtime::spawn_with(name, agent, run)?;
        }
    }
    if let Some(duty) = agent.program.duty.clone() {
        let names = names.clone();
        runtime::spawn_with("duty", agent, move |agent| run_duty(agent, duty, &names))?;
    }
    for index in 0..agent.claims.len() {
        runtime::spawn_with("claims", agent, move |agent| {
            let kind = agent.settings.claim_kinds[index];
            claim::follow(kind, &agent.claims[index], agent.spoke(), &agent.stop);
        })?;
    }
    if settings.addon_management {
        addon::start(agent)?;
    }
    Ok(())
}

/// Runs the duty once the files hold a valid credential: files of another hub would mislead the duty.
fn run_duty(agent: &Agent, duty: Arc<dyn Duty>, names: &AgentNames) {
    while ready(agent).is_err() {
        if agent.stop.wait(READY_INTERVAL) {
            return;
        }
    }
    duty.run(names, &agent.session_requests);
}

/// Reads the Secrets of the stored request and of the credential; `None` at the end of the process.
fn read_secrets(agent: &Agent) -> Option<RequestStore> {
    let (mut stored, mut due) = (agent.request_store(), Pace::default());
    loop {
        agent.beat();
        // In this order: a credential saved between both reads has the names of its request.
        let read = stored.read().map(drop).and_then(|()| agent.read_credential());
        agent.report(|status| status.error = read.as_ref().err().map(ToString::to_string));
        let Err(error) = read else { return Some(stored) };
        let what = "the Secrets of the agent cannot be read";
        let next = due.set(Err(error), &agent.credential(), what);
        // A wake must not end the wait: it changes nothing for the server that failed.
        if agent.stop.wait(next.saturating_duration_since(Instant::now())) {
            return None;
        }
    }
}

/// Resolves the names from flags and Secrets: under another name, this would be another cluster for the hub.
fn resolve_names(agent: &Agent, pending: &Data) -> Result<AgentNames> {
    let settings = &agent.settings;
    let secret = agent.credential_secret().and_then(|secret| secret::data(&secret).ok());
    let flags = [settings.cluster_name.as_deref(), settings.agent_id.as_deref()];
    let stored = [("the Secret", secret.as_ref()), ("the pending request", Some(pending))];
    let (names, ignored) = identity::resolve(flags, &stored, &identity::random()?);
    for ignored in &ignored {
        log_object!(Level::Warn, agent.credential(), reason = ignored; "a name is ignored");
    }
    log::info!(cluster = names.cluster, agent = names.agent; "the agent's names are known");
    Ok(names)
}
