//! When something is due again: at the time that a success says, or with back-off after a failure.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::{Backoff, Retry},
    error::{Error, Result},
    resource::Target,
};

/// Short: the namespace of an add-on comes with the add-on's other objects.
const MAX_BACKOFF: Duration = Duration::from_secs(15);

pub(crate) struct NextAttempt {
    pub(crate) at: Instant,
    errors: Backoff,
}

impl Default for NextAttempt {
    fn default() -> Self {
        Self::new(Backoff::new(MAX_BACKOFF))
    }
}

impl NextAttempt {
    pub(crate) fn new(errors: Backoff) -> Self {
        Self { at: Instant::now(), errors }
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.errors.failures() > 0
    }

    /// Takes the result of an attempt, and logs a failure as `what` about `target`; returns when the next one is due.
    pub(crate) fn set(
        &mut self,
        result: Result<Instant>,
        target: &Target<'_>,
        what: &str,
    ) -> Instant {
        self.at = match result {
            Ok(at) => {
                self.errors.succeeded();
                at
            }
            Err(error) => {
                let now = Instant::now();
                let retry = self.errors.failed(&error, now, fastrand::f64());
                let is_routine = matches!(error, Error::Conflict(_) | Error::AlreadyExists(_));
                let should_log = retry.should_log && !is_routine;
                Retry { should_log, ..retry }.log("", target, &error, what);
                now + retry.wait
            }
        };
        self.at
    }
}
