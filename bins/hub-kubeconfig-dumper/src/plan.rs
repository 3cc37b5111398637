//! The decision, without I/O: what lies in the directory and what the Secret holds → what to do, step by
//! step. After each step, wherever the process may die, every path shows the old set or the new one.
//!
//! The layout is kubelet's for Secret volumes (`pkg/volume/util/atomic_writer.go`): a generation is a
//! directory with all files of one set, `..data` a symlink to the current one, and each file's own path
//! a symlink through it. What has that form is ours; nothing else is ever removed.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use shared::{
    secret::Data,
    time::{micro_time, parse_micro_time},
};
use zeroize::Zeroizing;

/// The files of a set, by name.
pub(crate) type Files = Data;

/// The symlink whose change is the switch from one set to the next.
pub(crate) const DATA: &str = "..data";
/// Before a symlink is renamed to where it belongs.
pub(crate) const TEMPORARY: &str = "..tmp-";
/// Whoever resolved `..data` before a switch has this long to read on.
const GRACE: Duration = Duration::from_secs(10);
/// The year 9000; what writes times ends with 9999.
const LAST: Duration = Duration::from_secs(221_845_392_000);

/// The permissions of what is written, as far as somebody asked for them. Else what is there keeps those that
/// it has: whoever reads the files of the registration agent can read those that come after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) directory: Option<u32>,
    pub(crate) file: Option<u32>,
}

/// Of a directory that is made.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;
/// Of a file that was not there before.
const FILE_MODE: u32 = 0o600;
/// What others may do in a generation at most: read.
const READABLE: u32 = 0o755;

impl Modes {
    /// Of a generation in a directory with these permissions.
    fn of_generation(self, directory: u32) -> u32 {
        self.directory.unwrap_or(directory & READABLE | DIRECTORY_MODE)
    }
}

/// What lies in the directory.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) mode: u32,
    /// What `..data` points to, if that is a generation.
    pub(crate) current: Option<Generation>,
    /// The names of all generations, the oldest first.
    pub(crate) generations: Vec<String>,
    /// Symlinks that were not renamed any more.
    pub(crate) temporary: Vec<String>,
    /// The paths that matter: those of the new set, and all of our own form.
    pub(crate) entries: BTreeMap<String, PathEntry>,
}

/// One set on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) name: String,
    pub(crate) mode: u32,
    pub(crate) files: Files,
    /// Of each file.
    pub(crate) modes: BTreeMap<String, u32>,
}

/// What is at the path of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PathEntry {
    /// `NAME -> ..data/NAME`.
    Ours,
    /// A plain file with its content and permissions, if it can be read: the registration agent writes such.
    Plain(Option<(Zeroizing<Vec<u8>>, u32)>),
    /// It cannot be replaced by a symlink.
    Directory,
    /// A symlink to elsewhere, a socket, …
    Other,
}

/// One thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlanStep {
    /// Give the directory these permissions, if possible.
    SetMode(u32),
    /// Repair the permissions of a generation, and of these files of it.
    Repair(String, Vec<String>),
    /// Remove a generation with all that is in it.
    RemoveGeneration(String),
    /// Remove a symlink.
    Unlink(String),
    /// Write a generation, down to the disk.
    Write(Generation),
    /// Point `..data` to this generation.
    Switch(String),
    /// Point a file's path through `..data`, whatever is there.
    Link(String),
}

/// What to do, in this order.
///
/// # Errors
/// A sentence, when something is in the way that must not be removed.
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
    let mut plan = Plan { steps: left_behind(found), current, found, modes, now };
    if let Some(mode) = modes.directory.filter(|mode| *mode != found.mode) {
        plan.steps.push(PlanStep::SetMode(mode));
    }
    plan.take_over(wanted);
    if plan.shows(wanted) {
        plan.repair();
    } else {
        // A path that has nothing yet: its symlink shows nothing either before the switch.
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

/// Whether a kubeconfig can be read there now.
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

/// What a process that died left: symlinks on their way, and generations that were never switched to.
/// Names grow, so those are the ones after the current.
fn left_behind(found: &Found) -> Vec<PlanStep> {
    let current = found.current.as_ref().map(|generation| &generation.name);
    let never_shown = |name: &&String| current.is_none_or(|current| *name > current);
    let temporary = found.temporary.iter().cloned().map(PlanStep::Unlink);
    let unfinished = found.generations.iter().filter(never_shown).cloned();
    temporary.chain(unfinished.map(PlanStep::RemoveGeneration)).collect()
}

struct Plan<'a> {
    found: &'a Found,
    modes: Modes,
    now: SystemTime,
    steps: Vec<PlanStep>,
    /// The generation that `..data` names after the steps so far.
    current: Option<Generation>,
}

impl Plan<'_> {
    /// Puts plain files into the layout with the content that they have, so that the switch to the new
    /// content is one for all of them.
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
        let link = PlanStep::Link(name.to_owned());
        if !self.steps.contains(&link) {
            self.steps.push(link);
        }
    }

    fn shows(&self, files: &Files) -> bool {
        self.current.as_ref().is_some_and(|current| current.files == *files)
    }

    /// Everything is there before the switch, so that all of it appears at once.
    fn publish<'a>(&mut self, files: Files, new: impl Iterator<Item = &'a String>) {
        let newest = self.found.generations.last();
        let newest = self.current.as_ref().map(|current| &current.name).max(newest);
        let name = next_name(newest.map(String::as_str), self.now);
        let modes = files.keys().map(|file| (file.clone(), self.file_mode(file))).collect();
        let mode = self.modes.of_generation(self.found.mode);
        let generation = Generation { name: name.clone(), mode, files, modes };
        self.steps.push(PlanStep::Write(generation.clone()));
        new.for_each(|name| self.link(name));
        self.steps.push(PlanStep::Switch(name));
        self.current = Some(generation);
    }

    /// As asked; else those of the file that is shown now.
    fn file_mode(&self, name: &str) -> u32 {
        let shown = || match self.found.entries.get(name)? {
            PathEntry::Plain(Some((_, mode))) => Some(*mode),
            _ => self.current.as_ref()?.modes.get(name).copied(),
        };
        self.modes.file.or_else(shown).unwrap_or(FILE_MODE)
    }

    /// Gives what is shown already the permissions that somebody asked for.
    fn repair(&mut self) {
        let Some(current) = self.found.current.as_ref().filter(|current| {
            self.current.as_ref().is_some_and(|planned| planned.name == current.name)
        }) else {
            return;
        };
        let wrong =
            |(_, mode): &(&String, &u32)| self.modes.file.is_some_and(|file| file != **mode);
        let wrong: Vec<_> =
            current.modes.iter().filter(wrong).map(|(name, _)| name.clone()).collect();
        let narrow = self.modes.directory.is_some_and(|directory| directory != current.mode);
        if narrow || !wrong.is_empty() {
            self.steps.push(PlanStep::Repair(current.name.clone(), wrong));
        }
    }

    /// Removes what nobody can be reading any more: the generation before the current one stays, and all
    /// that were current within the grace.
    fn retire(&mut self) {
        let removed = |name: &String| {
            self.steps.iter().any(|step| matches!(step, PlanStep::RemoveGeneration(n) if n == name))
        };
        let mut shown: Vec<_> =
            self.found.generations.iter().filter(|name| !removed(name)).cloned().collect();
        for step in &self.steps {
            if let PlanStep::Switch(name) = step {
                shown.push(name.clone());
            }
        }
        for pair in shown.windows(2).take(shown.len().saturating_sub(2)) {
            // It was current until the next one began.
            let until = began(&pair[1]).unwrap_or(self.now);
            if self.now.duration_since(until).is_ok_and(|age| age >= GRACE) {
                self.steps.push(PlanStep::RemoveGeneration(pair[0].clone()));
            }
        }
    }
}

/// The name of a generation says when it began. Names grow even when the clock is set back.
fn next_name(newest: Option<&str>, now: SystemTime) -> String {
    let after = newest.and_then(began).map(|newest| newest + Duration::from_micros(1));
    let began = after.map_or(now, |after| after.max(now));
    format!("..{}", micro_time(began).replace(':', "_"))
}

fn began(name: &str) -> Option<SystemTime> {
    let began = parse_micro_time(&name.strip_prefix("..")?.replace('_', ":"))?;
    // A name planted at the end of time would leave none for the next.
    (began < SystemTime::UNIX_EPOCH + LAST).then_some(began)
}

/// Whether `name` is one that this program gives to generations.
pub(crate) fn is_generation(name: &str) -> bool {
    began(name).is_some_and(|began| next_name(None, began) == name)
}

#[cfg(test)]
mod tests;
