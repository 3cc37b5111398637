//! Files of the credential, for whoever reads -hub-kubeconfig-dir: what hub-kubeconfig-dumper does, by the agent
//! itself, as the registration agent does (ocm `pkg/registration/spoke/registration/secret_controller.go`).

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use log::Level;
use serde_json::Value;
use shared::{
    backoff::Backoff,
    error::Result,
    files::{Content, Modes, PublishOutcome, Publisher},
    log_object,
    logging::seconds,
    stop::Stop,
};

use crate::{agent::Agent, cached::CachedObject, state::SharedState};

/// The registration agent's resync (`secret_controller.go:60`): somebody may have changed the files.
const RESYNC: Duration = Duration::from_secs(300);
/// The longest wait between two attempts to write.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Keeps the files like the Secret until the end of the process. Without the Secret the files stay.
pub(crate) fn keep(agent: &Agent, directory: &Path) {
    let publisher = Publisher { path: directory.to_owned(), modes: Modes::default() };
    let mut backoff = Backoff::new(LONGEST_WAIT);
    let (mut done, mut due) = (None, Instant::now());
    loop {
        let seen = agent.stop.wakes();
        let now = Instant::now();
        let version = agent.read(version);
        if version.is_some() && (version != done || now >= due) {
            if let CachedObject::Object(secret) = agent.read(|state| state.credential.clone()) {
                due = now + pass(agent, &publisher, secret, &mut backoff);
            }
            done.clone_from(&version);
        }
        let soon = now + Stop::SLICE;
        if agent.stop.wait_for_change(seen, if version.is_some() { due.min(soon) } else { soon }) {
            return;
        }
    }
}

/// The version of the Secret, while there is one: it changes with each write.
fn version(state: &SharedState) -> Option<String> {
    match &state.credential {
        CachedObject::Object(secret) => {
            secret["metadata"]["resourceVersion"].as_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// Writes the files of `secret`; returns the time until that is worth another attempt.
fn pass(agent: &Agent, publisher: &Publisher, secret: Value, backoff: &mut Backoff) -> Duration {
    match publish(agent, publisher, secret) {
        Ok(()) => {
            backoff.succeeded();
            RESYNC
        }
        Err(error) => {
            let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
            if retry.should_log {
                let (path, wait) = (publisher.path.display(), seconds(retry.wait));
                log_object!(
                    Level::Warn, agent.credential(), path:% = path, error:% = error, retry_in = wait;
                    "the files are not written"
                );
            }
            retry.wait
        }
    }
}

fn publish(agent: &Agent, publisher: &Publisher, secret: Value) -> Result<()> {
    let settings = &agent.settings;
    let name = format!("{}/{}", settings.namespace, settings.hub_secret);
    let content = Content::of(&name, &secret)?;
    // A large Secret makes room for the files.
    drop(secret);
    let outcome = publisher.publish(&content, SystemTime::now(), &agent.stop)?;
    if outcome == PublishOutcome::Changed {
        let (files, path) = (content.files.len(), publisher.path.display());
        log_object!(
            Level::Info, agent.credential(), path:% = path, files = files;
            "wrote the files"
        );
    }
    Ok(())
}
