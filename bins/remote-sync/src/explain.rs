//! Explanation (`-explain`): the state of one pair, or what the program would do next about it, and why. It only reads.

use std::io::{self, Write};

use apiclient::{
    error::{Error, Result},
    workqueue::WorkItem,
};

use crate::{
    controller::Controller,
    model::key::{self, Pair},
    once,
    settings::Explained,
    sync::{
        SyncContext,
        decide::{SyncAction, next_action},
        observed::{Attempt, Observed},
        pair::PairContext,
        remote::RemoteSync,
        status::{PairState, Reason},
    },
};

/// Prints what is known of an object, and what would be done.
///
/// # Errors
/// `NotFound` if no remote has such a source or target.
pub(crate) fn run(controller: &Controller, wanted: &Explained) -> Result<()> {
    let Explained { kind, namespace, name } = wanted;
    once::wait_for_remotes(controller, |remote| remote.obstacle(*kind).is_none())?;
    let slash = if namespace.is_empty() { "" } else { "/" };
    let kind_name = &controller.context.settings.resources[*kind];
    let object = format!("{kind_name} {namespace}{slash}{name}");
    let mut text = String::new();
    for remote in controller.remotes().iter() {
        let names = &remote.names;
        // The name may be that of either side.
        let mut pairs: Vec<_> = [
            names.canonical_of_source(namespace, name),
            names.canonical_of_target(namespace, name),
        ]
        .into_iter()
        .flatten()
        .map(|(namespace, name)| key::of(namespace, name))
        .collect();
        pairs.dedup();
        for key in pairs {
            let pair = Pair { kind: *kind, key: key.into() };
            if let Some(line) = explain(&controller.context, remote, pair) {
                text.push_str(&format!("{object}, remote {}: {line}\n", remote.name));
            }
        }
    }
    text.extend(controller.registry_trouble().map(|why| format!("registry: {why}\n")));
    if text.is_empty() {
        return Err(Error::NotFound(format!(
            "{object} is neither a source nor a target of any remote"
        )));
    }
    // Whoever reads it may have closed the pipe.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// One line about a pair; `None` if neither of its objects exists.
fn explain(context: &SyncContext, remote: &RemoteSync, key: Pair) -> Option<String> {
    if let Some(why) = remote.obstacle(key.kind) {
        return Some(format!("nothing is done: {why}"));
    }
    let item = WorkItem { key, urgent: true, large: true, failures: 0 };
    let pair = PairContext::new(context, remote, &item)?;
    // A look at uploaded Secrets is due after every start; it is not worth reporting.
    let observed = Observed { uploads: Vec::new(), ..pair.observe() };
    if observed.source.is_none() && observed.target.is_none() {
        return None;
    }
    if let Some(sentence) = pair.blocked() {
        return Some(format!("{}: {sentence}", PairState::Failing.as_str()));
    }
    Some(match next_action(&observed, &Attempt::default(), &pair.rules()) {
        SyncAction::Done(reason) => match reason.map(Reason::condition) {
            Some(condition) => format!("{}: {}", condition.state.as_str(), condition.reason),
            None if observed.source.is_none() => "nothing to do, there is no pair".into(),
            None => PairState::InSync.as_str().into(),
        },
        action => format!("next: {}, as {}", action.as_str(), action.reason(&observed)),
    })
}
