//! Plans the steps from the directory's state to the Secret's content, without I/O. The process may die after any step:
//! every path shows the old set or the new one.
//!
//! The layout is kubelet's for Secret volumes (`pkg/volume/util/atomic_writer.go`): a generation is a directory with
//! all files of a set, `..data` is a symlink to the current one, and each file's own path is a symlink through `..data`.
//! Entries of that format are ours; nothing else is ever removed.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use zeroize::Zeroizing;

use apiclient::time::{micro_time, parse_micro_time};
use kubeconfig::secret::Data;

pub type Files = Data;

/// The symlink that switches from one set to the next.
pub(crate) const DATA: &str = "..data";
/// How long a reader that resolved `..data` before a switch may still read.
const GRACE: Duration = Duration::from_secs(10);
/// The year 9000; the format of times ends with 9999.
const LAST: Duration = Duration::from_secs(221_845_392_000);

/// The requested permissions. By default, existing entries keep theirs: readers of the registration agent's files must
/// be able to read the next ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    pub directory: Option<u32>,
    pub file: Option<u32>,
}

pub(crate) const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The largest mode of a generation: others may read.
const READABLE: u32 = 0o755;

impl Modes {
    /// The mode of a generation in a directory with these permissions.
    fn of_generation(self, directory: u32) -> u32 {
        self.directory.unwrap_or(directory & READABLE | DIRECTORY_MODE)
    }

    fn fit(self, set: &Generation) -> bool {
        let fits = |wanted: Option<u32>, mode| wanted.is_none_or(|wanted| wanted == mode);
        fits(self.directory, set.mode) && set.modes.values().all(|mode| fits(self.file, *mode))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) mode: u32,
    pub(crate) current: Option<Generation>,
    /// All generations, the oldest first.
    pub(crate) generations: Vec<String>,
    /// The relevant paths: of the new set, and all of our own format.
    pub(crate) entries: BTreeMap<String, PathEntry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) name: String,
    pub(crate) mode: u32,
    pub(crate) files: Files,
    pub(crate) modes: BTreeMap<String, u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PathEntry {
    /// `NAME -> ..data/NAME`.
    Ours,
    /// A plain file, as the registration agent writes; its content and permissions, if it can be read.
    Plain(Option<(Zeroizing<Vec<u8>>, u32)>),
    /// A directory: a symlink cannot replace it.
    Directory,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlanStep {
    /// Give the directory these permissions, if possible.
    SetMode(u32),
    RemoveGeneration(String),
    Unlink(String),
    Write(Generation),
    /// Point `..data` to this generation.
    Switch(String),
    /// Point a file's path through `..data`; replaces what is there.
    Link(String),
}

pub(crate) fn plan(
    found: &Found,
    wanted: &Files,
    modes: Modes,
    now: SystemTime,
) -> Result<Vec<PlanStep>, String> {
    let in_the_way = |name: &&String| found.entries.get(*name) == Some(&PathEntry::Directory);
    if let Some(name) = wanted.keys().find(in_the_way) {
        return Err(format!("{name} is a directory there: it has to be removed"));
    }
    let current = found.current.clone();
    // Names grow: later ones are leftovers of a process that died before it switched.
    let was_shown = |name: &String| current.as_ref().is_some_and(|current| *name <= current.name);
    let (shown, unfinished): (Vec<_>, Vec<_>) =
        found.generations.iter().cloned().partition(was_shown);
    let steps = unfinished.into_iter().map(PlanStep::RemoveGeneration).collect();
    let mut plan = Plan { steps, shown, current, found, modes, now };
    if let Some(mode) = modes.directory.filter(|mode| *mode != found.mode) {
        plan.steps.push(PlanStep::SetMode(mode));
    }
    plan.take_over(wanted);
    if !plan.shows(wanted) {
        // A new path: before the switch, its symlink shows nothing, either.
        let new = wanted.keys().filter(|name| !found.entries.contains_key(*name));
        plan.publish(wanted.clone(), new);
    }
    for (name, entry) in &found.entries {
        if *entry == PathEntry::Ours && !wanted.contains_key(name) {
            plan.steps.push(PlanStep::Unlink(name.clone()));
        }
    }
    for name in wanted.keys().filter(|name| found.entries.get(*name) != Some(&PathEntry::Ours)) {
        plan.link(name);
    }
    plan.retire();
    Ok(plan.steps)
}

pub(crate) fn has_kubeconfig(found: &Found) -> bool {
    let linked = || found.current.as_ref().is_some_and(|set| set.files.contains_key("kubeconfig"));
    match found.entries.get("kubeconfig") {
        Some(PathEntry::Ours) => linked(),
        Some(PathEntry::Plain(file)) => {
            file.as_ref().is_none_or(|(content, _)| !content.is_empty())
        }
        _ => false,
    }
}

struct Plan<'a> {
    found: &'a Found,
    modes: Modes,
    now: SystemTime,
    steps: Vec<PlanStep>,
    /// The generations that `..data` has named after the steps so far; the last one is current.
    shown: Vec<String>,
    current: Option<Generation>,
}

impl Plan<'_> {
    /// Moves plain files with their present content into the layout, so that one switch updates all of them.
    fn take_over(&mut self, wanted: &Files) {
        let plain = |name: &String| match self.found.entries.get(name) {
            Some(PathEntry::Plain(Some((content, _)))) => Some((name.clone(), content.clone())),
            _ => None,
        };
        let plain: Files = wanted.keys().filter_map(plain).collect();
        if plain.is_empty() {
            return;
        }
        let names: Vec<_> = plain.keys().cloned().collect();
        let mut visible = self.current.as_ref().map_or_else(Files::new, |set| set.files.clone());
        visible.extend(plain);
        if !self.shows(&visible) {
            self.publish(visible, [].iter());
        }
        names.iter().for_each(|name| self.link(name));
    }

    fn link(&mut self, name: &str) {
        let step = PlanStep::Link(name.to_owned());
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    fn shows(&self, files: &Files) -> bool {
        let is_it = |set: &Generation| set.files == *files && self.modes.fit(set);
        self.current.as_ref().is_some_and(is_it)
    }

    /// Prepares all files before the switch, so that they appear together.
    fn publish<'a>(&mut self, files: Files, new: impl Iterator<Item = &'a String>) {
        let newest = self.found.generations.last();
        let newest = self.current.as_ref().map(|current| &current.name).max(newest);
        let name = next_name(newest.map(String::as_str), self.now);
        let modes = files.keys().map(|file| (file.clone(), self.file_mode(file))).collect();
        let mode = self.modes.of_generation(self.found.mode);
        let generation = Generation { name: name.clone(), mode, files, modes };
        self.steps.push(PlanStep::Write(generation.clone()));
        new.for_each(|name| self.link(name));
        self.steps.push(PlanStep::Switch(name.clone()));
        self.shown.push(name);
        self.current = Some(generation);
    }

    fn file_mode(&self, name: &str) -> u32 {
        let shown = || match self.found.entries.get(name)? {
            PathEntry::Plain(Some((_, mode))) => Some(*mode),
            _ => self.current.as_ref()?.modes.get(name).copied(),
        };
        self.modes.file.or_else(shown).unwrap_or(FILE_MODE)
    }

    /// Removes generations without readers. The previous one stays, and all that were current within the grace period.
    fn retire(&mut self) {
        let retired = self.shown.len().saturating_sub(2);
        for pair in self.shown.windows(2).take(retired) {
            // A generation was current until the next one began.
            let until = began(&pair[1]).unwrap_or(self.now);
            if self.now.duration_since(until).is_ok_and(|age| age >= GRACE) {
                self.steps.push(PlanStep::RemoveGeneration(pair[0].clone()));
            }
        }
    }
}

/// The name of a generation, by its start. Names grow even if the clock is set back.
fn next_name(newest: Option<&str>, now: SystemTime) -> String {
    let after = newest.and_then(began).map(|newest| newest + Duration::from_micros(1));
    let began = after.map_or(now, |after| after.max(now));
    format!("..{}", micro_time(began).replace(':', "_"))
}

fn began(name: &str) -> Option<SystemTime> {
    let began = parse_micro_time(&name.strip_prefix("..")?.replace('_', ":"))?;
    // A forged name at the end of time would leave no later name.
    (began < SystemTime::UNIX_EPOCH + LAST).then_some(began)
}

pub(crate) fn is_generation(name: &str) -> bool {
    began(name).is_some_and(|began| next_name(None, began) == name)
}

#[cfg(test)]
mod tests;
