//! Files of the credential, for whoever reads -hub-kubeconfig-dir: what hub-kubeconfig-dumper does, by the agent
//! itself, as the registration agent does (ocm `pkg/registration/spoke/registration/secret_controller.go`).

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    backoff::Backoff, controller, error::Result, log_line::seconds, log_object, stop::Stop,
};
use hub_kubeconfig_dumper::{
    Content, MIN_INTERVAL, Modes, PublishOutcome, Publisher, RESYNC_INTERVAL,
};
use kubeconfig::secret;
use log::Level;

use crate::agent::Agent;

/// The longest wait between two attempts to write.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Keeps the files like the Secret until the end of the process. Without the Secret the files stay.
pub(crate) fn keep(agent: &Agent, directory: &Path) {
    let publisher = Publisher { path: directory.to_owned(), modes: Modes::default() };
    let (mut backoff, mut pace) = (Backoff::new(MAX_BACKOFF), FilePace::default());
    controller::run(&agent.stop, || {
        let (version, now) = (version(agent), Instant::now());
        let due = pace.due(version.as_deref(), now);
        if now < due {
            return Some(due);
        }
        let wait = pass(agent, &publisher, &mut backoff);
        pace.passed(version, now, wait);
        Some(now + wait)
    });
}

/// When the files are due.
#[derive(Default)]
struct FilePace {
    /// The version of the Secret in the last pass.
    version: Option<String>,
    /// That pass, and the next one for the same version.
    last: Option<(Instant, Instant)>,
}

impl FilePace {
    /// When they are due, with this version of the Secret.
    fn due(&self, version: Option<&str>, now: Instant) -> Instant {
        match (version, self.last) {
            (None, _) => now + Stop::SLICE,
            (Some(_), None) => now,
            (Some(_), Some((_, again))) if version == self.version.as_deref() => again,
            (Some(_), Some((last, again))) => again.min(last + MIN_INTERVAL),
        }
    }

    /// Records a pass, which is worth repeating after `wait`.
    fn passed(&mut self, version: Option<String>, now: Instant, wait: Duration) {
        (self.version, self.last) = (version, Some((now, now + wait)));
    }
}

/// The version of the Secret, while there is one: it changes with each write.
fn version(agent: &Agent) -> Option<String> {
    let secret = agent.credential_secret()?;
    secret["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

/// Writes the Secret's files; returns the time until that is worth another attempt.
fn pass(agent: &Agent, publisher: &Publisher, backoff: &mut Backoff) -> Duration {
    match publish(agent, publisher) {
        Ok(()) => {
            backoff.succeeded();
            RESYNC_INTERVAL
        }
        Err(error) => {
            let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
            if retry.should_log {
                let (path, wait) = (publisher.path.display(), seconds(retry.wait));
                log_object!(
                    Level::Warn, agent.credential(), path:% = path, error:% = error, retry_in = wait;
                    "the files are not written"
                );
            }
            retry.wait
        }
    }
}

fn publish(agent: &Agent, publisher: &Publisher) -> Result<()> {
    let settings = &agent.settings;
    let name = format!("{}/{}", settings.namespace, settings.hub_secret);
    // A Secret that was deleted a moment ago keeps its files.
    let Some(secret) = agent.credential_secret() else { return Ok(()) };
    let content = Content::of(&name, secret::data(&secret)?)?;
    let outcome = publisher.publish(&content, SystemTime::now(), &agent.stop)?;
    if outcome == PublishOutcome::Changed {
        let (files, path) = (content.files.len(), publisher.path.display());
        log_object!(
            Level::Info, agent.credential(), path:% = path, files = files;
            "wrote the files"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    /// The times of the passes in this many milliseconds, each of which brings what `version` returns; also the number of
    /// looks that nothing but time led to.
    fn passes(milliseconds: u32, version: impl Fn(u32) -> Option<String>) -> (Vec<u32>, usize) {
        let (begin, mut pace) = (Instant::now(), FilePace::default());
        let (mut passes, mut looks, mut until) = (Vec::new(), 0, begin);
        for millisecond in 0..milliseconds {
            let now = begin + MOMENT * millisecond;
            looks += usize::from(now >= until);
            let due = pace.due(version(millisecond).as_deref(), now);
            if now < due {
                until = due.min(now + Stop::SLICE);
            } else {
                passes.push(millisecond);
                pace.passed(version(millisecond), now, RESYNC_INTERVAL);
            }
        }
        (passes, looks)
    }

    #[test]
    fn changes_without_pause_are_combined() {
        let (passes, _) = passes(3500, |millisecond| Some(millisecond.to_string()));
        assert_eq!(passes, [0, 1000, 2000, 3000]);
    }

    #[test]
    fn a_single_change_is_written_at_once() {
        let (passes, _) = passes(5000, |millisecond| Some((millisecond / 2500).to_string()));
        assert_eq!(passes, [0, 2500]);
    }

    #[test]
    fn files_are_looked_after_from_time_to_time() {
        let (passes, looks) = passes(300_001, |_| Some("1".into()));
        assert_eq!(passes, [0, 300_000]);
        assert!(looks < 400, "{looks}");
    }

    #[test]
    fn without_the_secret_nothing_is_due_and_there_is_no_haste() {
        let (passes, looks) = passes(900_000, |millisecond| (millisecond < 10).then(String::new));
        assert_eq!(passes, [0]);
        assert!(looks < 1000, "{looks}");
    }
}
