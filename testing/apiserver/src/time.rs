//! Times as objects hold them.

use std::time::SystemTime;

/// The time in the form of Kubernetes' `Time`.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
