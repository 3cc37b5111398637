//! Files of the credential in -hub-kubeconfig-dir. Like upstream's agent, this one can write them without
//! hub-kubeconfig-dumper (ocm `pkg/registration/spoke/registration/secret_controller.go`).

use std::time::{Instant, SystemTime};

use apiclient::{controller, error::Result, log_object, stop::Stop};
use hub_kubeconfig_dumper::{Content, Modes, PublishOutcome, Publisher, RESYNC_INTERVAL};
use kubeconfig::secret;
use log::Level;
use serde_json::Value;

use crate::{agent::Agent, pacing::Pace};

/// Keeps the files in sync with the Secret until the end of the process. Without the Secret, the files stay.
pub(crate) fn keep(agent: &Agent) {
    let Some(path) = agent.settings.hub_directory.clone() else { return };
    let publisher = Publisher { path, modes: Modes::default() };
    let mut pace = Pace::default();
    let mut resync = Instant::now();
    controller::run(&agent.stop, || {
        let now = Instant::now();
        let Some(secret) = agent.credential_secret() else { return Some(now + Stop::SLICE) };
        let is_due = now >= resync || !is_published(agent);
        let due = pace.due(is_due, now).unwrap_or(resync);
        if due > now {
            return Some(due);
        }
        match publish(agent, &publisher, &secret) {
            Ok(()) => {
                pace.wrote(now);
                agent.update(|state| state.published = Some(secret));
                resync = now + RESYNC_INTERVAL;
            }
            Err(error) => {
                let (level, path) = (pace.failed(&error, now).level(), publisher.path.display());
                log_object!(
                    level, agent.credential(), path:% = path, error:% = error;
                    "the files are not written"
                );
            }
        }
        Some(now)
    });
}

pub(crate) fn is_published(agent: &Agent) -> bool {
    let published = agent.read(|state| state.published.clone());
    let both = published.zip(agent.credential_secret());
    both.is_some_and(|(published, secret)| published["data"] == secret["data"])
}

fn publish(agent: &Agent, publisher: &Publisher, secret: &Value) -> Result<()> {
    let name = format!("{}/{}", agent.settings.namespace, agent.settings.hub_secret);
    let content = Content::of(&name, secret::data(secret)?)?;
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
