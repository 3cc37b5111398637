//! Bootstrap kubeconfigs of files or Secrets, and which of them is in use.

use std::{sync::Arc, time::Duration};

use apiclient::{reflector::Lookup, resource::SECRETS, watch::Selection};
use kubeconfig::{
    Hub,
    config::{Auth, ClusterConfig, KeyPair},
    secret,
};
use log::Level;
use serde_json::Value;

use crate::{agent::Agent, settings::BootstrapSource};

/// The kubelet takes up to two minutes to update a Secret's volume; this adds little.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The hub that a bootstrap kubeconfig leads to, and the connection.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BootstrapKubeconfig {
    pub(crate) hub: Hub,
    pub(crate) config: ClusterConfig,
}

/// What a source gave when it was read last: a bootstrap kubeconfig, or the reason why none is valid.
pub(crate) type SourceResult = Result<Arc<BootstrapKubeconfig>, String>;

impl BootstrapKubeconfig {
    /// The connection to the hub with the agent's own identity.
    pub(crate) fn as_agent(&self, identity: &KeyPair) -> ClusterConfig {
        ClusterConfig { identity: Some(identity.clone()), auth: Auth::None, ..self.config.clone() }
    }

    pub(crate) fn of_secret(secret: &Value) -> kubeconfig::config::Result<Self> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let data = secret::data(secret)?;
        Ok(Self {
            config: kubeconfig::from_secret(name, &data)?,
            hub: Hub::of_secret(name, &data)?,
        })
    }
}

/// Keeps the bootstrap kubeconfig of source number `index` up to date, until the end of the process.
pub(crate) fn follow(agent: &Agent, index: usize) {
    let (source, store) = (&agent.settings.bootstraps[index], &agent.bootstraps[index]);
    let mut before = None;
    let mut on_change = || {
        let error = agent.source(index).and_then(SourceResult::err);
        log_change(source, before.as_deref(), error.as_deref());
        before = error;
        agent.stop.wake();
    };
    match source {
        BootstrapSource::File(path) => loop {
            let read = kubeconfig::hub_from_file(path);
            let read = read.map(|(hub, config)| BootstrapKubeconfig { hub, config });
            let revision = store.revision();
            let read = read.map(Arc::new).map_err(|error| error.to_string());
            store.put(revision, source.name(), Some(read));
            if store.revision() != revision {
                on_change();
            }
            if agent.stop.wait(READ_INTERVAL) {
                return;
            }
        },
        BootstrapSource::Secret(name) => {
            let selection = Selection::all(SECRETS.object(&agent.settings.namespace, name));
            let mut parse = |secret: Value| {
                let read = BootstrapKubeconfig::of_secret(&secret);
                Some(read.map(Arc::new).map_err(|error| error.to_string()))
            };
            store.run(&agent.management, &selection, &agent.stop, &mut parse, &mut on_change);
        }
    }
}

fn log_change(source: &BootstrapSource, before: Option<&str>, now: Option<&str>) {
    let (level, message) = match (before, now) {
        (before, Some(_)) if before != now => (Level::Warn, "no valid bootstrap kubeconfig"),
        (Some(_), None) => (Level::Info, "the bootstrap kubeconfig is available again"),
        _ => return,
    };
    log::log!(level, source:% = source, error = now.unwrap_or_default(); "{message}");
}

impl Agent {
    /// What source number `index` gave; `None` until it was read.
    pub(crate) fn source(&self, index: usize) -> Option<SourceResult> {
        let (source, store) = (&self.settings.bootstraps[index], &self.bootstraps[index]);
        match store.get(source.name()) {
            Lookup::Object(read) => Some(read),
            Lookup::Unknown => None,
            Lookup::Absent => {
                let (namespace, name) = (&self.settings.namespace, source.name());
                Some(Err(format!("there is no Secret {namespace}/{name}")))
            }
            Lookup::Invalid => Some(Err(store.last_error().unwrap_or_default())),
        }
    }

    /// The server of source number `index`, by which hubs are told apart.
    pub(crate) fn server(&self, index: usize) -> Option<String> {
        Some(self.source(index)?.ok()?.hub.url().to_owned())
    }

    /// The selected one of several hubs: the index of its source, and its server. The selection ends when the source
    /// leads to another server; a source without a valid bootstrap kubeconfig says nothing about the hub.
    pub(crate) fn selected_hub(&self) -> Option<(usize, String)> {
        let (index, server) = self.read(|state| state.selected_hub.clone())?;
        self.server(index).is_none_or(|it| it == server).then_some((index, server))
    }

    /// The bootstrap kubeconfig in use: the only one, or that of the selected hub.
    pub(crate) fn bootstrap(&self) -> Option<Arc<BootstrapKubeconfig>> {
        self.source(self.source_in_use()?)?.ok()
    }

    fn source_in_use(&self) -> Option<usize> {
        match self.settings.hub_connection_timeout {
            Some(_) => Some(self.selected_hub()?.0),
            None => Some(0),
        }
    }

    /// Why no bootstrap kubeconfig is valid, or why no other hub can be selected.
    pub(crate) fn bootstrap_error(&self) -> Option<String> {
        if let Some(error) = self.read(|state| state.selection_error.clone()) {
            return Some(format!("no hub can be selected: {error}"));
        }
        let error = self.source(self.source_in_use()?)?.err()?;
        Some(format!("no valid bootstrap kubeconfig: {error}"))
    }
}
