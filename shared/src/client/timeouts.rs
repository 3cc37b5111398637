//! Time limits of a client.

use std::time::Duration;

/// The time that things may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// A request, from its start to the last byte of its answer.
    pub request: Duration,
    /// Between two checks of files.
    pub files: Duration,
    /// A watch may be silent for this long before it counts as dead.
    pub silence: Duration,
    /// The server is asked to end a watch after this, or up to twice as much.
    pub watch: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::with_request(Self::REQUEST)
    }
}

impl Timeouts {
    /// The time for a request where no flag says another.
    pub const REQUEST: Duration = Duration::from_secs(10);

    /// The usual times, with `request` for a request.
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
