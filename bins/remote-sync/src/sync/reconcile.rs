//! A worker's passes: decide, do, look again, until there is nothing more to do about a pair.

use std::time::Duration;

use shared::error::Error;

use crate::{
    cache::retry::{Class, class},
    settings,
    sync::{
        cleanup,
        context::Context,
        decide::{self, Standing, Step},
        observed::{Pass, Rules, View},
        outcome::{ended, failed, refused, too_large},
        pair::Job,
        remote::Route,
        workqueue::{Outcome, Task},
    },
};

/// A pass that takes more steps does not come to rest; each Secret is one more.
const MOST_STEPS: usize = 64;
/// Nor does one that takes the same step so often, as where a webhook undoes it.
const MOST_REPEATS: usize = 3;

/// Works on the pairs of `route` until there are none, or it is asked to end; calls `staff` before each, as
/// one worker may not be enough.
pub(crate) fn work(context: &Context, route: &Route, staff: &dyn Fn()) {
    while let Some(task) = route.queue.take() {
        staff();
        let outcome = match task.large {
            true => look_at_large(context, route, &task),
            false => look_at(context, route, &task),
        };
        route.queue.done(&task, outcome);
    }
}

/// As [`look_at`], when there is memory for it.
fn look_at_large(context: &Context, route: &Route, task: &Task) -> Outcome {
    match context.permits.acquire(&route.stop) {
        Some(_permit) => look_at(context, route, task),
        None => Outcome::Settled,
    }
}

fn look_at(context: &Context, route: &Route, task: &Task) -> Outcome {
    let Some(kinds) = route.kinds(task.pair.kind) else {
        return Outcome::Failed(Class::Transient, Duration::ZERO);
    };
    let job = Job::new(context, route, task, &kinds);
    // A Namespace says no kind, only the name of an object.
    if kinds.source.namespaced == job.source.0.is_empty() {
        return Outcome::Settled;
    }
    if let Err(sentence) = job.check() {
        return refused(&job, sentence);
    }
    if let Some(which) = job.too_large() {
        return too_large(&job, which);
    }
    if !task.large && job.is_large() {
        return Outcome::Large;
    }
    if context.settings.task == settings::Task::Cleanup {
        return cleanup::pass(&job);
    }
    let rules = route.rules(&kinds, &context.settings);
    Round { job, rules, pass: Pass::default(), troubles: Vec::new(), pretended: None }.run()
}

/// One pass over a pair.
struct Round<'a> {
    job: Job<'a>,
    rules: Rules,
    pass: Pass,
    /// Of single Secrets.
    troubles: Vec<Error>,
    /// What the clusters would be like, where nothing is written.
    pretended: Option<View>,
}

impl Round<'_> {
    fn run(mut self) -> Outcome {
        let (mut last, mut repeats) = (None, 0);
        for _ in 0..MOST_STEPS + self.job.context.settings.secrets.len() {
            let view = self.pretended.take().unwrap_or_else(|| self.job.view());
            let step = decide::next(&view, &self.pass, &self.rules);
            repeats = if last.replace(step) == Some(step) { repeats + 1 } else { 0 };
            if repeats == MOST_REPEATS {
                break;
            }
            if let Some(outcome) = self.take(step, view) {
                return outcome;
            }
        }
        let message = "it does not come to rest: somebody else changes it all the time".to_owned();
        let error = Error::Unavailable { message, retry_after: None, of_object: true };
        failed(&self.job, &error)
    }

    /// Takes one step; returns the outcome if it was the last.
    fn take(&mut self, step: Step, view: View) -> Option<Outcome> {
        let dry_run = self.job.context.settings.dry_run;
        match step {
            Step::Done(Standing::Again) if dry_run => {
                (self.pass, self.pretended) = (Pass::default(), Some(view));
                None
            }
            Step::Done(standing) => Some(self.end(&view, standing)),
            step if dry_run && step.writes() => self.pretend(step, view),
            step => match self.job.perform(step, &view, &mut self.pass) {
                Ok(None) => None,
                Ok(Some(standing)) => Some(self.end(&view, standing)),
                // It is larger than it was, or nothing was known of it.
                Err(Error::TooLarge(_)) if self.job.is_hurried() => Some(Outcome::Large),
                // One Secret that cannot be written holds up neither the others nor the spec.
                Err(error)
                    if matches!(step, Step::UploadSecret(_)) && class(&error) != Class::Down =>
                {
                    self.troubles.push(error);
                    None
                }
                Err(error) => Some(failed(&self.job, &error)),
            },
        }
    }

    fn pretend(&mut self, step: Step, mut view: View) -> Option<Outcome> {
        log::info!("{}: would {}", self.job, step.words());
        if !decide::pretend(step, &mut view, &mut self.pass) {
            return Some(self.end(&view, Standing::Nothing));
        }
        self.pretended = Some(view);
        None
    }

    fn end(&self, view: &View, standing: Standing) -> Outcome {
        ended(&self.job, view, standing, &self.pass, &self.troubles)
    }
}
