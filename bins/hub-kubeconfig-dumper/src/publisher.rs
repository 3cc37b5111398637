//! Publishes a set of files: inspects the directory, and performs the steps of the plan.

use std::{
    fmt::Display,
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use super::{
    content::Content,
    directory::Directory,
    disk::look,
    plan::{DATA, DIRECTORY_MODE, Generation, Modes, PlanStep, has_kubeconfig, plan},
};
use apiclient::{
    error::{Error, Result},
    stop::Stop,
};

/// Another program holds the lock for some milliseconds.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct Publisher {
    pub path: PathBuf,
    pub modes: Modes,
}

#[derive(Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    Unchanged,
    Changed,
    /// The new set has no kubeconfig, the published one has, and it stays.
    Kept,
}

impl Publisher {
    pub fn publish(
        &self,
        content: &Content,
        now: SystemTime,
        stop: &Stop,
    ) -> Result<PublishOutcome> {
        let unusable = |error: &dyn Display| self.fail(&format!("cannot be used: {error}"));
        let mode = self.modes.directory.unwrap_or(DIRECTORY_MODE);
        let directory = Directory::create(&self.path, mode).map_err(|error| unusable(&error))?;
        self.lock(&directory, stop)?;
        let found = look(&directory, &content.files).map_err(|error| unusable(&error))?;
        if !content.complete && (content.files.is_empty() || has_kubeconfig(&found)) {
            return Ok(PublishOutcome::Kept);
        }
        let steps = plan(&found, &content.files, self.modes, now);
        let steps = steps.map_err(|error| unusable(&error))?;
        for step in &steps {
            let kept = |error| self.fail(&format!("keeps the files that it has: {error}"));
            perform(&directory, step).map_err(kept)?;
        }
        let changed =
            steps.iter().any(|step| matches!(step, PlanStep::Switch(_) | PlanStep::Link(_)));
        Ok(if changed { PublishOutcome::Changed } else { PublishOutcome::Unchanged })
    }

    fn fail(&self, what: &str) -> Error {
        Error::bad_config(format!("directory {} {what}", self.path.display()))
    }

    fn lock(&self, directory: &Directory, stop: &Stop) -> Result<()> {
        for _ in 0..LOCK_ATTEMPTS {
            match directory.lock() {
                Ok(true) => return Ok(()),
                Ok(false) if stop.wait(LOCK_INTERVAL) => break,
                Ok(false) => {}
                Err(error) => return Err(self.fail(&format!("has no lock: {error}"))),
            }
        }
        Err(self.fail("is locked by another process"))
    }
}

/// Performs a step. It tolerates failures with permissions and leftovers: a volume's root may belong to another user.
fn perform(directory: &Directory, step: &PlanStep) -> io::Result<()> {
    match step {
        PlanStep::SetMode(mode) => {
            tolerate("permissions of the directory", directory.set_mode(*mode));
        }
        PlanStep::RemoveGeneration(name) => tolerate("a leftover", directory.remove(name)),
        PlanStep::Unlink(name) => {
            directory.unlink(name)?;
            directory.sync()?;
        }
        PlanStep::Write(generation) => write(directory, generation).inspect_err(|_| {
            // To free space on a full disk.
            tolerate("a leftover", directory.remove(&generation.name));
        })?,
        PlanStep::Switch(generation) => directory.link(DATA, generation)?,
        PlanStep::Link(name) => directory.link(name, &format!("{DATA}/{name}"))?,
    }
    Ok(())
}

fn write(directory: &Directory, generation: &Generation) -> io::Result<()> {
    let Generation { name, mode, files, modes } = generation;
    let inside = directory.make(name)?;
    for (name, content) in files {
        inside.write(name, content, modes[name])?;
    }
    inside.set_mode(*mode)?;
    inside.sync()?;
    directory.sync()
}

fn tolerate(what: &str, result: io::Result<()>) {
    if let Err(error) = result {
        log::debug!(error:% = error; "unchanged: {what}");
    }
}

#[cfg(test)]
mod tests;
