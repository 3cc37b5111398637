//! Clients for the local cluster, by the flags, and for the cluster of a file.

use std::{path::PathBuf, time::Duration};

use apiclient::{
    client::{Client, Reload, Timeouts},
    error::Result,
};
use kubeconfig::{Env, config::ClusterConfig};

use crate::flags::Flags;

/// Loads the configuration of the local cluster from -kubeconfig and -master.
pub fn load_own(flags: &Flags) -> impl Fn() -> Result<ClusterConfig> + Send + Sync + use<> {
    let file = flags.some("kubeconfig").map(PathBuf::from);
    let master = flags.some("master").map(str::to_owned);
    move || Ok(kubeconfig::load(file.as_deref(), master.as_deref(), &Env::process())?)
}

/// A client for the local cluster, by -kubeconfig and -master; `request` is the time limit of a request.
pub fn own_cluster(flags: &Flags, request: Duration) -> Result<Client> {
    let load = load_own(flags);
    let (config, reload) = (load()?, Reload::FromFiles(Box::new(load)));
    Client::new("the local cluster", config, reload, Timeouts::with_request(request))
}

/// A client for the cluster of a kubeconfig file, which is reloaded like other credentials. Messages call the server
/// `name`.
pub fn cluster_of_file(name: &str, file: PathBuf) -> Result<Client> {
    let load = move || Ok(kubeconfig::from_file(&file)?);
    let (config, reload) = (load()?, Reload::FromFiles(Box::new(load)));
    Client::new(name, config, reload, Timeouts::default())
}
