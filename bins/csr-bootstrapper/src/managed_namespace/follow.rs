//! Watch of the namespaces with the hub's label.

use std::{collections::BTreeSet, ops::ControlFlow};

use apiclient::{
    error::Result,
    resource::NAMESPACES,
    watch::{self, Event, Selection, Watcher},
};

use super::MOST;
use crate::{
    agent::{Agent, PAGE},
    state::HubSession,
};

fn selection(selector: &str) -> Selection<'_> {
    let target = NAMESPACES.everywhere();
    Selection { target, labels: selector, metadata_only: true, page: PAGE }
}

/// Returns whether there is any now.
///
/// # Errors
/// As the server says.
pub(super) fn any(agent: &Agent, session: &HubSession, selector: &str) -> Result<bool> {
    let mut any = false;
    watch::list(agent.spoke(), &selection(selector), &session.stop, &mut |_| {
        any = true;
        ControlFlow::Break(())
    })?;
    Ok(any)
}

/// Keeps their names in the shared state, until the end of the session: after it, those of its hub are no business of
/// the next one. Whoever ends a session does so under the state's lock.
pub(super) fn follow(agent: &Agent, session: &HubSession, selector: &str) {
    let mut listed = BTreeSet::new();
    let errors = &agent.errors.namespaces;
    Watcher::default().run(agent.spoke(), &selection(selector), &session.stop, &mut |event| {
        match event {
            Event::Init { .. } => listed = BTreeSet::new(),
            Event::InitApply(document) => put(&mut listed, document.name()),
            Event::InitDone => {
                let all = std::mem::take(&mut listed);
                update(agent, session, |labelled| *labelled = all);
            }
            Event::Apply(document) => {
                update(agent, session, |labelled| put(labelled, document.name()));
            }
            Event::Delete(document) => update(agent, session, |labelled| {
                labelled.remove(document.name());
            }),
            Event::Watching => errors.set(None),
            Event::Failed(error) => errors.set(Some(error)),
        }
        match session.stop.raised() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
}

fn update(agent: &Agent, session: &HubSession, change: impl FnOnce(&mut BTreeSet<String>)) {
    agent.update(|state| {
        if !session.stop.raised() {
            change(state.labelled_namespaces.get_or_insert_default());
        }
    });
}

/// Those that the hub managed may be as many as those that it manages.
fn put(names: &mut BTreeSet<String>, name: &str) {
    if names.len() < 2 * MOST {
        names.insert(name.to_owned());
    }
}
