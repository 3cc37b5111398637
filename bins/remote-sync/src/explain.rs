//! Explanation (`-explain`): the state of one pair, or what the program would do next about it, and why. It only reads.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use apiclient::{
    error::{Error, Result},
    workqueue::WorkItem,
};

use crate::{
    controller::Controller,
    model::key::{self, KindIndex, Pair},
    once,
    settings::Explained,
    sync::{
        context::SyncContext,
        decide::{SyncAction, next_action},
        observed::{Attempt, Observed},
        pair::PairContext,
        remote::RemoteSync,
        status::PairState,
    },
};

/// The longest wait for clusters and their lists.
const LISTS_TIMEOUT: Duration = Duration::from_secs(60);

/// Prints what is known of an object, and what would be done.
///
/// # Errors
/// `NotFound` if no remote has such a source or target. `Unavailable` if the local cluster cannot be reached.
pub(crate) fn run(controller: &Controller, wanted: &Explained) -> Result<()> {
    wait_for_lists(controller, wanted.kind)?;
    let Explained { kind, namespace, name, .. } = wanted;
    let mut text = String::new();
    for remote in controller.remotes().iter() {
        let names = &remote.names;
        let mut pairs = Vec::new();
        // The name may be that of either side.
        for canonical in
            [names.canonical_of_source(namespace, name), names.canonical_of_target(namespace, name)]
        {
            pairs.extend(canonical.map(|(namespace, name)| key::of(namespace, name)));
        }
        pairs.dedup();
        for key in pairs {
            let pair = Pair { kind: *kind, key: key.into() };
            if let Some(line) = explain(&controller.context, remote, &pair) {
                text.push_str(&format!("{wanted}, remote {}: {line}\n", remote.name));
            }
        }
    }
    text.extend(controller.registry_trouble().map(|why| format!("registry: {why}\n")));
    if text.is_empty() {
        return Err(Error::NotFound(format!(
            "{wanted} is neither a source nor a target of any remote"
        )));
    }
    // Whoever reads it may have closed the pipe.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Waits until the kind is listed on all clusters, or it is known why not.
fn wait_for_lists(controller: &Controller, kind: KindIndex) -> Result<()> {
    let begun = Instant::now();
    let lists = |remote: &RemoteSync| {
        let connection = &remote.cluster;
        remote.obstacle(kind).is_some()
            && remote.trouble(kind).is_none()
            && !once::is_unreachable(connection)
    };
    once::wait_while(controller, "stopped before everything was known", || {
        let remotes = controller.remotes();
        let waits = once::awaits_remotes(controller) || remotes.iter().any(|it| lists(it));
        waits && begun.elapsed() < LISTS_TIMEOUT
    })
}

/// One line about a pair; `None` if neither of its objects exists.
fn explain(context: &SyncContext, remote: &RemoteSync, pair: &Pair) -> Option<String> {
    let since = Instant::now();
    let item = WorkItem { key: pair.clone(), since, urgent: true, large: true, failures: 0 };
    let waits = remote.obstacle(pair.kind).map(|why| format!("nothing is done: {why}"));
    let Some(pair) = PairContext::new(context, remote, &item) else { return waits };
    // A look at uploaded Secrets is due after every start; it is not worth reporting.
    let observed = Observed { uploads: Vec::new(), ..pair.observe() };
    if observed.source.is_none() && observed.target.is_none() {
        return None;
    }
    if waits.is_some() {
        return waits;
    }
    if let Some(sentence) = pair.blocked() {
        return Some(format!("{}: {sentence}", PairState::Failing.as_str()));
    }
    Some(match next_action(&observed, &Attempt::default(), &pair.rules()) {
        SyncAction::Done(status) => match status.condition() {
            Some(condition) => format!("{}: {}", condition.state.as_str(), condition.reason),
            None if observed.source.is_none() => "nothing to do, there is no pair".into(),
            None => PairState::InSync.as_str().into(),
        },
        action => format!("next: {}, as {}", action.as_str(), action.reason(&observed)),
    })
}
