//! The threads: one that keeps the credential, one for each thing that is followed, and those that tell the
//! hub that the cluster lives. Only the leader of the replicas works.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use serde_json::Value;
use shared::{
    client::Client,
    election::{self, Candidate, Timing},
    endpoint,
    error::{Error, Result},
    flags::Flags,
    pace::Backoff,
    program,
    resource::LEASES,
    secret,
    stop::Stop,
};

use crate::{
    agent::{Agent, SLICE},
    cluster,
    heartbeat::Heartbeat,
    known::Sighting,
    names::{self, Known, Names},
    readiness::ready,
    registrar::Registrar,
    report::Reporter,
    secrets,
    settings::Settings,
    sources, status,
};

/// The registration agent's own, so that either takes over from the other (ocm
/// `pkg/common/options/options.go`).
const LOCK: &str = "registration-agent-lock";
/// A leader gets this long to let go of its Lease when the process is asked to end, and the last write to
/// be answered.
const FAREWELL: Duration = Duration::from_millis(800);
/// What is needed first is tried again after at most this.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Does the work until `stop` is raised, or with `-once` until the credential is there.
///
/// # Errors
/// What is refused at the start: a kubeconfig that cannot be used, a port that cannot be served. With
/// `-once` why there is no credential.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<()> {
    settings.log_dropped();
    let agent = Arc::new(Agent::new(settings, flags, stop)?);
    let heartbeat = Arc::new(Heartbeat::new());
    if let Some(limit) = settings.once {
        return once(&agent, limit);
    }
    endpoint::serve(flags, stop, Reporter { agent: agent.clone(), heartbeat: heartbeat.clone() })?;
    let elected = match settings.election {
        Some(timing) => Some(stand(&agent, timing, flags)?),
        None => None,
    };
    if wait_to_lead(&agent) {
        keep_credential(&agent, false)?;
        spawn("cluster", &agent, cluster::follow)?;
        spawn("status", &agent, status::keep)?;
        spawn("heartbeat", &agent, move |agent| heartbeat.keep(agent))?;
        stop.wait_for_ever();
    }
    if let Some(elected) = elected {
        // Closed when the election's thread has ended.
        let _ = elected.recv_timeout(FAREWELL);
    }
    Ok(())
}

/// Gets a credential and no more; a `limit` of nothing is none.
fn once(agent: &Arc<Agent>, limit: Duration) -> Result<()> {
    let ended = keep_credential(agent, true)?;
    let stopped = match limit {
        Duration::ZERO => {
            agent.stop.wait_for_ever();
            true
        }
        limit => agent.stop.wait(limit),
    };
    let why = ready(agent).err().unwrap_or_default();
    match (ended.recv_timeout(Duration::ZERO), stopped) {
        (Ok(()), _) => Ok(()),
        (Err(_), true) => {
            Err(Error::BadConfig(format!("stopped before there was a credential: {why}")))
        }
        (Err(_), false) => {
            let seconds = limit.as_secs();
            Err(Error::BadConfig(format!("no credential after {seconds} s: {why}")))
        }
    }
}

/// Starts what keeps the credential; with `once` it says when that is usable, and raises `stop`.
fn keep_credential(agent: &Arc<Agent>, once: bool) -> Result<Receiver<()>> {
    spawn("secret", agent, sources::follow_credential)?;
    spawn("bootstrap", agent, sources::follow_bootstrap)?;
    let (end, ended) = channel();
    spawn("credential", agent, move |agent| {
        if let Some(registrar) = prepare(agent)
            && registrar.keep(once)
        {
            // Nobody listens any more after the deadline.
            let _ = end.send(());
            agent.stop.raise();
        }
    })?;
    Ok(ended)
}

/// Finds out who this agent is and what an earlier process left; `None` when asked to end.
fn prepare(agent: &Agent) -> Option<Registrar<'_>> {
    let mut backoff = Backoff::new(LONGEST_WAIT);
    loop {
        agent.progress().come_by();
        let seen = agent.stop.wakes();
        let credential = match agent.credential() {
            Sighting::Unknown => {
                if agent.stop.wait_for_change(seen, Instant::now() + SLICE) {
                    return None;
                }
                continue;
            }
            Sighting::Absent => None,
            Sighting::Object(secret) => Some(secret),
        };
        let registrar = secrets::pending(agent)
            .and_then(|stored| registrar(agent, credential.as_ref(), stored));
        match registrar {
            Ok(registrar) => return Some(registrar),
            Err(error) => {
                agent.progress().detail = Some(error.to_string());
                let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
                if retry.tell {
                    log::warn!("{error}");
                }
                if rest(agent, retry.wait) {
                    return None;
                }
            }
        }
    }
}

/// Waits in pieces: the loop lives, however long a server asks it to stay away.
fn rest(agent: &Agent, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        agent.progress().come_by();
        let left = until.saturating_duration_since(Instant::now());
        if agent.stop.wait(left.min(SLICE)) || left.is_zero() {
            return agent.stop.raised();
        }
    }
}

fn registrar<'a>(
    agent: &'a Agent,
    credential: Option<&Value>,
    stored: Option<Value>,
) -> Result<Registrar<'a>> {
    let data = |secret: Option<&Value>| secret.and_then(|secret| secret::data(secret).ok());
    let settings = &agent.settings;
    let (secret, pending) = (data(credential), data(stored.as_ref()));
    let directory = settings.hub_directory.as_deref().map(names::in_directory);
    let known = Known {
        flags: (settings.cluster_name.as_deref(), settings.agent_id.as_deref()),
        secret: secret.as_ref(),
        directory: directory.as_ref(),
        pending: pending.as_ref(),
    };
    let resolved = names::resolve(&known, &names::random()?);
    resolved.ignored.iter().for_each(|ignored| log::warn!("{ignored}"));
    let Names { cluster, agent: id } = &resolved.names;
    log::info!("this is agent {id} of cluster {cluster}");
    agent.progress().detail = None;
    agent.set_names(resolved.names.clone());
    Ok(Registrar::new(agent, resolved.names, stored))
}

/// Takes part in the election; what it returns is closed when that has ended.
fn stand(agent: &Arc<Agent>, timing: Timing, flags: &Flags) -> Result<Receiver<()>> {
    // With its own time for a request: one that hangs must not cost the lead.
    let client = Client::of_own_cluster(flags, timing.renew / 2)?;
    let (end, ended) = channel();
    spawn("election", agent, move |agent| {
        let target = LEASES.object(&agent.settings.namespace, LOCK);
        let candidate = Candidate::new(election::identity(), timing);
        election::run(&client, &target, candidate, &agent.stop, &|candidate| {
            let leads = candidate.leads_until().is_some();
            let stands_by = candidate.stands_by(Instant::now());
            match (agent.set_lead(leads, stands_by), leads) {
                (false, true) => log::info!("leads the replicas ({target})"),
                // As upstream: what is under way here must not meet what the next leader does.
                (true, false) => {
                    log::warn!("leads the replicas no longer ({target}): the process ends");
                    agent.stop.raise();
                }
                _ => {}
            }
        });
        drop(end);
    })?;
    Ok(ended)
}

/// Waits for the lead; `false` when asked to end.
fn wait_to_lead(agent: &Agent) -> bool {
    loop {
        let seen = agent.stop.wakes();
        if agent.progress().leads() {
            return true;
        }
        if agent.stop.wait_for_change(seen, Instant::now() + SLICE) {
            return false;
        }
    }
}

fn spawn(
    name: &'static str,
    agent: &Arc<Agent>,
    work: impl FnOnce(&Agent) + Send + 'static,
) -> Result<()> {
    let agent = agent.clone();
    program::spawn(name, move || work(&agent))
}
