//! Sources of the shared state: watches of the credential's Secret and of the bootstrap kubeconfig.

use std::{ops::ControlFlow, path::Path, time::Duration};

use log::Level;
use serde_json::Value;
use shared::{
    error::{Error, Result},
    kubeconfig::{self, Hub, Reach},
    log_object,
    resource::SECRETS,
    secret, watch,
};

use crate::{
    agent::Agent,
    bootstrap::BootstrapKubeconfig,
    settings::{BootstrapSource, Settings},
};

/// The kubelet takes up to two minutes to update a Secret's volume; this adds little.
const READ_FILE_EVERY: Duration = Duration::from_secs(2);

/// Keeps the credential's Secret in the shared state.
pub(crate) fn follow_credential(agent: &Agent) {
    let Settings { namespace, hub_secret, .. } = &agent.settings;
    let target = SECRETS.object(namespace, hub_secret);
    let last_error = &agent.errors.credential;
    watch::follow(&agent.management, &target, &agent.stop, last_error, &mut |secret| {
        agent.update(|state| state.credential = secret.into());
        ControlFlow::Continue(())
    });
}

/// Keeps the bootstrap kubeconfig in the shared state. A missing or invalid one is nothing to compare with,
/// and has no other consequence.
pub(crate) fn follow_bootstrap(agent: &Agent) {
    match &agent.settings.bootstrap {
        BootstrapSource::File(path) => follow_file(agent, path),
        BootstrapSource::Secret(name) => follow_secret(agent, name),
    }
}

fn follow_file(agent: &Agent, path: &Path) {
    loop {
        adopt(agent, of_file(path, agent.settings.reach));
        if agent.stop.wait(READ_FILE_EVERY) {
            return;
        }
    }
}

fn of_file(path: &Path, reach: Reach) -> Result<BootstrapKubeconfig> {
    kubeconfig::hub_from_file(path, reach).map(|(hub, config)| BootstrapKubeconfig { hub, config })
}

fn follow_secret(agent: &Agent, name: &str) {
    let namespace = &agent.settings.namespace;
    let target = SECRETS.object(namespace, name);
    let last_error = &agent.errors.bootstrap;
    watch::follow(&agent.management, &target, &agent.stop, last_error, &mut |secret| {
        let bootstrap = match secret {
            Some(secret) => of_secret(&secret),
            None => Err(Error::NotFound(format!("there is no Secret {namespace}/{name}"))),
        };
        adopt(agent, bootstrap);
        ControlFlow::Continue(())
    });
}

/// Uses `bootstrap` from now on, and logs a change.
fn adopt(agent: &Agent, bootstrap: Result<BootstrapKubeconfig>) {
    let error = bootstrap.as_ref().err().map(ToString::to_string);
    let bootstrap = bootstrap.ok();
    let (before, changed) =
        agent.read(|state| (state.no_bootstrap.clone(), state.bootstrap != bootstrap));
    match (&before, &error) {
        (before, Some(error)) if before.as_ref() != Some(error) => {
            log_source(agent, Level::Warn, "no valid bootstrap kubeconfig", error);
        }
        (Some(_), None) => {
            log_source(agent, Level::Info, "the bootstrap kubeconfig is available again", "");
        }
        _ => {}
    }
    if changed || before != error {
        agent.update(|state| {
            state.no_bootstrap = error;
            state.set_bootstrap(bootstrap);
        });
    }
}

fn log_source(agent: &Agent, level: Level, message: &str, error: &str) {
    match &agent.settings.bootstrap {
        BootstrapSource::File(path) => {
            log::log!(level, path:% = path.display(), error = error; "{message}");
        }
        BootstrapSource::Secret(name) => {
            let target = SECRETS.object(&agent.settings.namespace, name);
            log_object!(level, target, error = error; "{message}");
        }
    }
}

fn of_secret(secret: &Value) -> Result<BootstrapKubeconfig> {
    let name = secret["metadata"]["name"].as_str().unwrap_or_default();
    let data = secret::data(secret)?;
    Ok(BootstrapKubeconfig {
        config: kubeconfig::from_secret(name, &data)?,
        hub: Hub::of_secret(name, &data)?,
    })
}
