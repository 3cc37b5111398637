//! kubeconfig, Kubernetes REST client and program frame of the four sidecars.

pub mod backoff;
pub mod certificate;
pub mod client;
mod collect;
pub mod config;
pub mod diagnostics;
pub mod election;
pub mod error;
pub mod event;
pub mod files;
pub mod flags;
pub mod histogram;
pub mod json;
pub mod kubeconfig;
pub mod leadership;
pub mod lease;
pub mod lock;
pub mod logging;
mod memory;
pub mod metrics;
pub mod renewal;
pub mod resource;
pub mod runtime;
pub mod secret;
pub mod stop;
pub mod time;
pub mod version;
pub mod watch;
pub mod yaml;

pub use collect::collect;
