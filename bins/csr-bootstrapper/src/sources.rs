//! Sources of the shared state: watches of the credential's Secret and of the bootstrap kubeconfig.

use std::{ops::ControlFlow, path::Path, time::Duration};

use apiclient::{
    error::{Error, Result},
    log_object,
    resource::SECRETS,
    watch,
};
use kubeconfig::{self, Reach, secret};
use log::Level;
use serde_json::Value;

use crate::{
    agent::Agent,
    bootstrap::{BootstrapCandidate, BootstrapKubeconfig},
    hub::Hub,
    settings::{BootstrapSource, Settings},
};

/// The kubelet takes up to two minutes to update a Secret's volume; this adds little.
const READ_INTERVAL: Duration = Duration::from_secs(2);

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

/// Keeps bootstrap kubeconfig number `index` in the shared state. A missing or invalid one is nothing to compare
/// with, and has no other consequence.
pub(crate) fn follow_bootstrap(agent: &Agent, index: usize) {
    let source = &agent.settings.bootstraps[index];
    let mut before = None;
    let mut adopt = |bootstrap: Result<BootstrapKubeconfig>| {
        let bootstrap = bootstrap.map_err(|error| error.to_string());
        let error = bootstrap.as_ref().err().cloned();
        match (&before, &error) {
            (before, Some(error)) if before.as_ref() != Some(error) => {
                log_source(agent, source, Level::Warn, "no valid bootstrap kubeconfig", error);
            }
            (Some(_), None) => {
                let message = "the bootstrap kubeconfig is available again";
                log_source(agent, source, Level::Info, message, "");
            }
            _ => {}
        }
        before = error;
        adopt(agent, index, bootstrap);
    };
    match source {
        BootstrapSource::File(path) => follow_file(agent, path, &mut adopt),
        BootstrapSource::Secret(name) => follow_secret(agent, (index, name), &mut adopt),
    }
}

/// Receives what was read.
type Adopt<'a> = dyn FnMut(Result<BootstrapKubeconfig>) + 'a;

fn follow_file(agent: &Agent, path: &Path, adopt: &mut Adopt<'_>) {
    loop {
        adopt(of_file(path, agent.settings.reach));
        if agent.stop.wait(READ_INTERVAL) {
            return;
        }
    }
}

fn of_file(path: &Path, reach: Reach) -> Result<BootstrapKubeconfig> {
    let (cluster, config) = kubeconfig::cluster_from_file(path, reach)?;
    Ok(BootstrapKubeconfig { hub: cluster.into(), config })
}

fn follow_secret(agent: &Agent, (index, name): (usize, &str), adopt: &mut Adopt<'_>) {
    let namespace = &agent.settings.namespace;
    let target = SECRETS.object(namespace, name);
    let last_error = &agent.errors.bootstraps[index];
    watch::follow(&agent.management, &target, &agent.stop, last_error, &mut |secret| {
        adopt(match secret {
            Some(secret) => of_secret(&secret),
            None => Err(Error::NotFound(format!("there is no Secret {namespace}/{name}"))),
        });
        ControlFlow::Continue(())
    });
}

/// Uses `bootstrap` from now on, if there is a single hub or its own is selected.
fn adopt(agent: &Agent, index: usize, bootstrap: BootstrapCandidate) {
    let several = agent.settings.hub_connection_timeout.is_some();
    let same = agent.read(|state| match (&bootstrap, several) {
        (_, true) => state.hubs.has(index, &bootstrap),
        (Ok(bootstrap), false) => state.bootstrap.as_ref() == Some(bootstrap),
        (Err(error), false) => state.no_bootstrap.as_ref() == Some(error),
    });
    if !same {
        agent.update(|state| {
            if several && !state.hubs.set(index, bootstrap.clone()) {
                return;
            }
            state.no_bootstrap = bootstrap.as_ref().err().cloned();
            state.set_bootstrap(bootstrap.ok());
        });
    }
}

fn log_source(agent: &Agent, source: &BootstrapSource, level: Level, message: &str, error: &str) {
    match source {
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
