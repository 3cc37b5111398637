//! kubeconfig and the Kubernetes REST client that the four sidecars share.

pub mod access;
mod call;
pub mod certificate;
pub mod client;
mod dial;
pub mod election;
pub mod endpoint;
pub mod error;
pub mod event;
pub mod flags;
pub mod json;
pub mod kubeconfig;
pub mod lease;
mod link;
pub mod lock;
pub mod logging;
pub mod metrics;
pub mod pace;
pub mod program;
pub mod renewal;
pub mod resource;
pub mod secret;
mod status;
pub mod stop;
pub mod time;
mod tls;
pub mod watch;

/// What the targets in testing/fuzz reach beyond the public API; no other build has it.
#[cfg(fuzzing)]
pub mod fuzzing {
    use crate::{error::Error, resource::Target, status};

    /// An answer that is not a success.
    pub fn status(
        what: &str,
        target: &Target<'_>,
        code: u16,
        retry_after: Option<&str>,
        body: &[u8],
    ) -> Error {
        status::error(what, target, code, retry_after, false, body)
    }

    /// The object of an `ERROR` event.
    pub fn watch_error(what: &str, target: &Target<'_>, object: &serde_json::Value) -> Error {
        status::watch_error(what, target, object)
    }
}
