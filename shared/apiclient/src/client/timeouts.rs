//! Time limits of a client.

use std::time::Duration;

/// The time limit of a list: its pages expire by then (etcd compacts every 5 minutes, apiserver
/// `pkg/storage/storagebackend/config.go`, DefaultCompactInterval).
pub const LIST_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// A request, from its start to the last byte of its answer.
    pub request: Duration,
    /// Between two checks of files.
    pub files: Duration,
    /// The longest silence of a watch before it counts as dead.
    pub silence: Duration,
    /// The duration to request for a watch, or up to twice as much.
    pub watch: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::with_request(Self::REQUEST)
    }
}

impl Timeouts {
    pub const REQUEST: Duration = Duration::from_secs(10);

    /// The usual limits, with `request` for a request.
    ///
    /// Files: a minute less the leeway that client-go takes (`transport/token_source.go:72-79`).
    /// Silence: bookmarks come about once a minute (apiserver `pkg/storage/cacher/cacher.go`,
    /// defaultBookmarkFrequency).
    /// Watch: client-go draws from 5 to 10 minutes (`tools/cache/reflector.go:57-58`).
    pub fn with_request(request: Duration) -> Self {
        Self {
            request,
            files: Duration::from_secs(50),
            silence: Duration::from_secs(100),
            watch: Duration::from_secs(240),
        }
    }
}
