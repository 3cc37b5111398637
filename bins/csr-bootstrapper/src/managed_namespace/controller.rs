//! Loop that labels the namespaces that the hub manages, and those that it no longer manages. In the steady state
//! nothing is sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
    time::Instant,
};

use apiclient::{
    api::PartialObjectMetadata,
    client::Patch,
    error::{Error, Result},
    log_object,
    reflector::Store,
    resource::NAMESPACES,
    status_writer::{StatusWriter, WritePace},
    stop::Stop,
    watch::{self, Selection},
};
use log::Level;
use serde_json::json;
use sidecar::runtime;

use super::{MAX_NAMESPACES, label, wanted};
use crate::{
    agent::{Agent, PAGE},
    state::HubSession,
};

/// Labels namespaces, until the end of the process.
pub(crate) fn run(agent: &Arc<Agent>) {
    while let Some(session) = agent.next_session() {
        let mut controller = NamespaceController::new(agent, &session);
        agent.run_session(&session, |cluster| controller.reconcile(&wanted(cluster)));
        agent.change(|state| {
            state.namespaces = None;
            state.applied_namespaces.clear();
        });
    }
}

/// The state of one session.
struct NamespaceController<'a> {
    agent: &'a Arc<Agent>,
    session: &'a Arc<HubSession>,
    label: String,
    /// The namespaces with the label.
    labelled: Store<()>,
    /// Most clusters never have such a namespace: the watch begins with the first.
    watch: Watch,
    /// Looks for the first.
    look: WritePace,
    /// By the namespace's name.
    writer: StatusWriter<String>,
    failures: BTreeMap<String, String>,
}

/// What is known of the namespaces with the hub's label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// This hub may have managed some before.
    NotYet,
    /// It has not.
    NotNeeded,
    Started,
}

impl<'a> NamespaceController<'a> {
    fn new(agent: &'a Arc<Agent>, session: &'a Arc<HubSession>) -> Self {
        let label = label(&session.client.config().server);
        let look = WritePace::new(Instant::now());
        // Those that the hub managed may be as many as those that it manages.
        let labelled = Store::new(2 * MAX_NAMESPACES);
        agent.change(|state| state.namespaces = Some(labelled.clone()));
        Self {
            agent,
            session,
            label,
            labelled,
            watch: Watch::NotYet,
            look,
            writer: StatusWriter::default(),
            failures: BTreeMap::new(),
        }
    }

    /// Performs what is due; returns when to come again if nothing changes.
    fn reconcile(&mut self, wanted: &BTreeSet<String>) -> Instant {
        let later = Instant::now() + Stop::SLICE;
        if self.watch != Watch::Started {
            return self.watch_if_needed(wanted);
        }
        let Some(labelled) = self.labelled() else { return later };
        self.writer.retain(|name| wanted.contains(name) || labelled.contains(name));
        self.failures.retain(|name, _| wanted.contains(name));
        wanted.intersection(&labelled).for_each(|name| self.settle(name));
        let mut until = later;
        for (name, managed) in due(wanted, &labelled) {
            if self.session.stop.raised() {
                break;
            }
            until = until.min(self.write(name, managed));
        }
        self.tell(wanted);
        until
    }

    /// The names of those with the label, once they are known.
    fn labelled(&self) -> Option<BTreeSet<String>> {
        self.labelled.read(|all| all.keys().cloned().collect())
    }

    /// Starts the watch if there are such namespaces, or may be.
    fn watch_if_needed(&mut self, wanted: &BTreeSet<String>) -> Instant {
        let selector = format!("{}=true", self.label);
        if wanted.is_empty() && self.watch == Watch::NotYet {
            if Instant::now() < self.look.not_before {
                return self.look.not_before;
            }
            match self.any(&selector) {
                Ok(true) => {}
                // Without the right nobody asked for this.
                Ok(false) | Err(Error::Forbidden(_)) => self.watch = Watch::NotNeeded,
                Err(error) => {
                    self.look.failed(&error, Instant::now());
                    return self.look.not_before;
                }
            }
        }
        if wanted.is_empty() && self.watch == Watch::NotNeeded {
            return Instant::now() + Stop::SLICE;
        }
        let (agent, session, store) =
            (self.agent.clone(), self.session.clone(), self.labelled.clone());
        let watch = move || {
            let mut parse = |_: PartialObjectMetadata| Some(());
            let mut wake = || agent.stop.wake();
            store.run(agent.spoke(), &selection(&selector), &session.stop, &mut parse, &mut wake);
        };
        match runtime::spawn("namespaces", watch) {
            Ok(()) => self.watch = Watch::Started,
            Err(error) => log::warn!(error:% = error; "the hub's namespaces are not watched"),
        }
        Instant::now() + Stop::SLICE
    }

    /// Returns whether there is any now.
    fn any(&self, selector: &str) -> Result<bool> {
        let mut any = false;
        watch::list(self.agent.spoke(), &selection(selector), &self.session.stop, &mut |_| {
            any = true;
            ControlFlow::Break(())
        })?;
        Ok(any)
    }

    fn settle(&mut self, name: &str) {
        self.failures.remove(name);
        self.writer.due(&name.to_owned(), false);
    }

    /// Labels a namespace, unless it is too early; returns when to look again.
    fn write(&mut self, name: &str, managed: bool) -> Instant {
        let pace = self.writer.pace(&name.to_owned());
        if Instant::now() < pace.not_before {
            return pace.not_before;
        }
        let (target, revision) = (NAMESPACES.cluster_object(name), self.labelled.revision());
        match put_label(self.agent, name, &self.label, managed) {
            Ok(()) => {
                pace.wrote(Instant::now());
                self.failures.remove(name);
                self.labelled.put(revision, name, managed.then_some(()));
                let what = if managed { "managed" } else { "no longer managed" };
                log_object!(Level::Info, target; "the namespace is {what} by the hub");
            }
            Err(error) => {
                let level = pace.failed(&error, Instant::now());
                log_object!(level, target, error:% = error; "a namespace of the hub cannot be labelled");
                self.failures
                    .insert(name.to_owned(), format!("Failed to apply namespace: {error}"));
            }
        }
        pace.not_before
    }

    /// Sets what the hub is told, and wakes the loop that tells it.
    fn tell(&self, wanted: &BTreeSet<String>) {
        let labelled = self.labelled();
        let result = |name: &String| match self.failures.get(name) {
            Some(error) => Some((name.clone(), Err(error.clone()))),
            None => labelled.as_ref()?.contains(name).then(|| (name.clone(), Ok(()))),
        };
        let applied = wanted.iter().filter_map(result).collect();
        let changed = self.agent.change(|state| {
            std::mem::replace(&mut state.applied_namespaces, applied) != state.applied_namespaces
        });
        if changed {
            self.agent.stop.wake();
        }
    }
}

fn selection(selector: &str) -> Selection<'_> {
    let target = NAMESPACES.everywhere();
    Selection { target, labels: selector, metadata_only: true, page: PAGE }
}

/// The namespaces to label, and whether the hub manages them.
fn due<'a>(
    wanted: &'a BTreeSet<String>,
    labelled: &'a BTreeSet<String>,
) -> Vec<(&'a String, bool)> {
    let new = wanted.difference(labelled).map(|name| (name, true));
    let former = labelled.difference(wanted).map(|name| (name, false));
    new.chain(former).collect()
}

/// Labels a namespace; creates one that the hub manages.
fn put_label(agent: &Agent, name: &str, label: &str, managed: bool) -> Result<()> {
    let (target, value) = (NAMESPACES.cluster_object(name), if managed { "true" } else { "false" });
    let labels = json!({label: value});
    let patch = json!({"metadata": {"labels": labels}});
    match agent.spoke().patch(&target, Patch::Merge, &patch) {
        Err(Error::NotFound(_)) if managed => {
            let new = json!({
                "apiVersion": NAMESPACES.api_version(), "kind": NAMESPACES.kind,
                "metadata": {"name": name, "labels": labels},
            });
            agent.spoke().create(&target.siblings(), &new).map(drop)
        }
        Ok(_) | Err(Error::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_namespace_what_is_due() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (wanted, labelled, expected) in [
            (&[][..], &[][..], &[][..]),
            (&["a"], &[], &[("a", true)]),
            (&["a"], &["a"], &[]),
            (&[], &["old"], &[("old", false)]),
            (&["a", "b"], &["b", "old"], &[("a", true), ("old", false)]),
        ] {
            let (wanted, labelled): (BTreeSet<String>, BTreeSet<String>) =
                (set(wanted), set(labelled));
            let due: Vec<_> = due(&wanted, &labelled);
            let due: Vec<_> = due.iter().map(|(name, managed)| (name.as_str(), *managed)).collect();
            assert_eq!(due, expected);
        }
    }
}
