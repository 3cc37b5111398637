//! Bootstrap kubeconfigs, from files or Secrets.

use std::{sync::Arc, time::Duration};

use apiclient::{
    client::Client,
    reflector::{Lookup, Store},
    resource::SECRETS,
    stop::Stop,
    watch::Selection,
};
use kubeconfig::{
    Hub,
    config::{Auth, ClusterConfig, KeyPair},
    secret,
};
use log::Level;
use serde_json::Value;

use crate::settings::BootstrapSource;

/// The interval of reads of a file. It adds little to the kubelet's delay for a Secret's volume, up to two minutes.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The hub of a bootstrap kubeconfig, and the connection to it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BootstrapKubeconfig {
    pub(crate) hub: Hub,
    pub(crate) config: ClusterConfig,
}

/// The result of a source's last read: a bootstrap kubeconfig, or the reason why none is valid.
pub(crate) type SourceResult = Result<Arc<BootstrapKubeconfig>, String>;

impl BootstrapKubeconfig {
    /// Returns the connection to the hub with the agent's own identity.
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

/// Returns the result of `source`, whose Secret is in `namespace`; `None` until it was read.
pub(crate) fn result(
    source: &BootstrapSource,
    store: &Store<SourceResult>,
    namespace: &str,
) -> Option<SourceResult> {
    match store.get(source.name()) {
        Lookup::Object(read) => Some(read),
        Lookup::Unknown => None,
        Lookup::Absent => Some(Err(format!("there is no Secret {namespace}/{}", source.name()))),
        Lookup::Invalid => Some(Err(store.last_error().unwrap_or_default())),
    }
}

/// Keeps the bootstrap kubeconfig of `source` up to date, until the end of the process.
pub(crate) fn follow(
    source: &BootstrapSource,
    store: &Store<SourceResult>,
    (management, namespace): (&Client, &str),
    stop: &Stop,
) {
    let mut before = None;
    let mut on_change = || {
        let error = result(source, store, namespace).and_then(SourceResult::err);
        log_change(source, before.as_deref(), error.as_deref());
        before = error;
        stop.wake();
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
            if stop.wait(READ_INTERVAL) {
                return;
            }
        },
        BootstrapSource::Secret(name) => {
            let selection = Selection::all(SECRETS.object(namespace, name));
            let mut parse = |secret: Value| {
                let read = BootstrapKubeconfig::of_secret(&secret);
                Some(read.map(Arc::new).map_err(|error| error.to_string()))
            };
            store.run(management, &selection, stop, &mut parse, &mut on_change);
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
