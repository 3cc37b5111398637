//! Times in the format of Kubernetes objects.

use std::time::SystemTime;

/// The current time in the format of Kubernetes' `Time`.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
