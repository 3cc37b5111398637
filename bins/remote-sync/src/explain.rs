//! Explanation (`-explain`): what the program would do next for one object, and why. It only reads.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use apiclient::error::{Error, Result};

use crate::{
    controller::Controller,
    model::key::{self, KindIndex, Pair},
    once,
    settings::Explained,
    sync::{explain, remote::RemoteSync},
};

/// The longest wait for clusters and their lists.
const LONGEST: Duration = Duration::from_secs(60);

/// Prints what is known of an object, and what would be done.
///
/// # Errors
/// `NotFound` if no remote has such a source or target. `Unavailable` if the local cluster cannot be reached.
pub(crate) fn run(controller: &Controller, wanted: &Explained) -> Result<()> {
    wait_for_lists(controller, wanted.kind)?;
    let mut text = String::new();
    for remote in controller.remotes().iter() {
        for key in keys(remote, wanted) {
            let pair = Pair { kind: wanted.kind, key: key.into() };
            if let Some(line) = explain::explain(&controller.context, remote, &pair) {
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

/// The keys of the pairs that have this name on either side.
fn keys(remote: &RemoteSync, wanted: &Explained) -> Vec<key::ObjectKey> {
    let Explained { namespace, name, .. } = wanted;
    let both = [
        remote.names.canonical_of_source(namespace, name),
        remote.names.canonical_of_target(namespace, name),
    ];
    let mut keys: Vec<_> =
        both.into_iter().flatten().map(|(namespace, name)| key::of(namespace, name)).collect();
    keys.dedup();
    keys
}

/// Waits until the kind is listed on all clusters, or it is known why not.
fn wait_for_lists(controller: &Controller, kind: KindIndex) -> Result<()> {
    let begun = Instant::now();
    let lists = |remote: &RemoteSync| {
        let connection = &controller.remote_cluster(remote).connection;
        remote.obstacle(kind).is_some()
            && remote.trouble(kind).is_none()
            && !once::is_unreachable(connection)
    };
    once::wait_while(controller, "stopped before everything was known", || {
        let remotes = controller.remotes();
        let waits = once::awaits_remotes(controller) || remotes.iter().any(|it| lists(it));
        waits && begun.elapsed() < LONGEST
    })
}
