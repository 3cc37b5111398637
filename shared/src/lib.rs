//! kubeconfig and the Kubernetes REST client that the four sidecars share.

pub mod access;
mod call;
pub mod certificate;
pub mod client;
mod dial;
pub mod election;
pub mod endpoint;
pub mod error;
pub mod flags;
pub mod kubeconfig;
pub mod lease;
mod link;
pub mod lock;
pub mod logging;
pub mod metrics;
pub mod pace;
pub mod program;
pub mod resource;
pub mod secret;
mod status;
pub mod stop;
pub mod time;
mod tls;
pub mod watch;
