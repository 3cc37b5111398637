//! Diagnostics: `/healthz`, `/readyz`, `/metrics`, `/debug/state` and `-explain`. They show names and reasons, never an
//! object's content.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::Arc,
    time::SystemTime,
};

use apiclient::{
    error::{Error, Result},
    lock::lock,
    workqueue::WorkItem,
};
use serde_json::{Map, Value, json};
use sidecar::{
    diagnostics::{LOOP_TIMEOUT, Report, stuck},
    leadership::Leadership,
    metrics::{Family, Metrics},
};

use crate::{
    cache::ApiResources,
    connection::Connection,
    controller::Controller,
    model::{
        key::{self, Pair},
        object::Role,
    },
    once,
    settings::Explained,
    sync::{
        SyncContext,
        decide::{SyncAction, next_action},
        observed::{Attempt, Observed},
        pair::PairContext,
        remote::RemoteSync,
        status::{PairCondition, PairState, Reason},
    },
};

const PAIRS: Family =
    Family::gauge("remote_sync_pairs", "Pairs of a source and its target, by state.");
const RESOURCE_READY: Family = Family::gauge(
    "remote_sync_resource_ready",
    "1 while pairs of the kind can be read and reconciled.",
);
const QUEUE_DEPTH: Family =
    Family::gauge("remote_sync_queue_depth", "Pairs in the workqueue, by state.");
const DELETIONS_HELD: Family = Family::gauge(
    "remote_sync_deletions_held",
    "Deletions that wait for their grace period, a token or an operator.",
);

/// The most pairs per remote in `/debug/state`: enough for a diagnosis.
const MAX_PAIRS: usize = 1000;

pub(crate) struct Reporter {
    pub(crate) controller: Arc<Controller>,
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) started: SystemTime,
}

impl Report for Reporter {
    fn healthy(&self) -> std::result::Result<(), String> {
        if stuck(self.controller.beat(), LOOP_TIMEOUT) {
            return Err("the queue controller is stuck".into());
        }
        // A first contact takes fewer than 10 sequential requests, for the identity and the records.
        let longest = LOOP_TIMEOUT + 10 * self.controller.context.settings.timeout;
        match self.clusters().iter().find(|cluster| stuck(cluster.beat(), longest)) {
            Some(cluster) => {
                Err(format!("the loop that supervises cluster {} is stuck", cluster.name()))
            }
            None => Ok(()),
        }
    }

    /// An unreachable remote or an unserved kind does not affect readiness: a restart would not help.
    fn ready(&self) -> std::result::Result<(), String> {
        if self.leadership.follows() {
            return Ok(());
        }
        if !self.leadership.leads() {
            return Err("no replica is known to be the leader".into());
        }
        let local = self.controller.local.cluster();
        if local.is_connected() {
            return Ok(());
        }
        let error = local.error().unwrap_or_else(|| "not yet tried".into());
        Err(format!("the local cluster is not connected: {error}"))
    }

    fn remarks(&self) -> String {
        if !self.leadership.leads() {
            return String::new();
        }
        let mut lines = String::new();
        let mut add = |what: String, why: Option<String>| {
            lines.extend(why.map(|why| format!("{what}: {why}\n")));
        };
        for remote in self.controller.remotes().iter() {
            for (kind, wanted) in self.controller.context.settings.resources.iter().enumerate() {
                add(format!("{wanted} ({})", remote.name), remote.unready(kind));
            }
            for (secrets, why) in remote.secret_troubles() {
                add(format!("{secrets} ({})", remote.name), why);
            }
            add(remote.name.clone(), held_pairs(remote));
        }
        for cluster in self.clusters() {
            add(format!("identity ({})", cluster.name()), cluster.unverified());
        }
        add("registry".into(), self.controller.registry_trouble());
        lines
    }

    fn metrics(&self) -> String {
        let mut metrics = Metrics::default();
        metrics.add_process(env!("CARGO_PKG_NAME"), self.started);
        self.leadership.add_to(&mut metrics);
        self.clusters().iter().for_each(|cluster| cluster.add_to(&mut metrics));
        for remote in self.controller.remotes().iter() {
            self.add_remote(remote, &mut metrics);
        }
        metrics.to_string()
    }

    fn state(&self) -> Option<String> {
        let remotes: Map<_, _> = self
            .controller
            .remotes()
            .iter()
            .map(|remote| (remote.name.clone(), self.state_of(remote)))
            .collect();
        let state = json!({
            "leads": self.leadership.leads(),
            "own": self.controller.local.cluster().to_json(),
            "registry": self.controller.registry_trouble(),
            "remotes": remotes,
        });
        Some(format!("{state:#}\n"))
    }
}

impl Reporter {
    fn clusters(&self) -> Vec<Arc<Connection>> {
        let remotes = self.controller.remotes();
        let remotes = remotes.iter().map(|remote| &remote.cluster);
        [self.controller.local.cluster()].into_iter().chain(remotes).cloned().collect()
    }

    fn add_remote(&self, remote: &RemoteSync, metrics: &mut Metrics) {
        let label = ("remote", &*remote.name);
        for (kind, wanted) in self.controller.context.settings.resources.iter().enumerate() {
            let resource = wanted.to_string();
            let resource = ("resource", &*resource);
            let (mut states, not_in_sync) = remote.count_states(kind);
            let not_in_sync = not_in_sync + remote.queue.unseen(|pair| pair.kind == kind);
            let hindered = remote.unready(kind).is_some();
            states.insert(PairState::InSync.as_str(), 0);
            // Unreadable objects may have changed.
            let rest = if hindered { "unknown" } else { PairState::InSync.as_str() };
            states.insert(rest, remote.count_sources(kind).saturating_sub(not_in_sync));
            for (state, count) in states {
                metrics.add(PAIRS, &[label, resource, ("state", state)], count);
            }
            metrics.add(RESOURCE_READY, &[label, resource], u8::from(!hindered));
        }
        for (secrets, why) in remote.secret_troubles() {
            metrics.add(RESOURCE_READY, &[label, ("resource", &secrets)], u8::from(why.is_none()));
        }
        for (state, count) in remote.queue.depth().by_state() {
            metrics.add(QUEUE_DEPTH, &[label, ("state", state)], count);
        }
        metrics.add(DELETIONS_HELD, &[label], lock(&remote.deletions).waiting());
        remote.metrics.add_to(&remote.name, metrics);
    }

    fn state_of(&self, remote: &RemoteSync) -> Value {
        let resources = &self.controller.context.settings.resources;
        let memory = remote.memory();
        let conditions = memory.conditions().take(MAX_PAIRS);
        let not_in_sync: Vec<_> = conditions
            .map(|(pair, condition)| {
                json!({"resource": resources[pair.kind].to_string(), "pair": &*pair.key,
                    "state": condition.state.as_str(), "reason": condition.reason})
            })
            .collect();
        let kinds: Map<_, _> = resources
            .iter()
            .enumerate()
            .map(|(kind, wanted)| {
                let known = json!({"sources": remote.source.stores[kind].len(),
                    "targets": remote.target.stores[kind].len(),
                    "waitsFor": remote.obstacle(kind), "trouble": remote.trouble(kind)});
                (wanted.to_string(), known)
            })
            .collect();
        let queue: BTreeMap<_, _> = remote.queue.depth().by_state().into();
        json!({
            "connection": remote.cluster.to_json(),
            "resources": kinds,
            "queue": queue,
            "notInSync": not_in_sync,
        })
    }
}

fn held_pairs(remote: &RemoteSync) -> Option<String> {
    let memory = remote.memory();
    let held = |it: &&PairCondition| it.state == PairState::Held && !it.ends;
    let held: Vec<_> = memory.conditions().map(|(_, condition)| condition).filter(held).collect();
    let reasons: BTreeSet<_> = held.iter().map(|condition| &*condition.reason).collect();
    let reasons: Vec<_> = reasons.into_iter().collect();
    (!held.is_empty()).then(|| format!("{} pairs are held: {}", held.len(), reasons.join("; ")))
}

/// Prints the state of an object's pair, or its next action, with the reason (`-explain`). Sends reads only.
///
/// # Errors
/// `NotFound` if the object is neither a source nor a target of any remote.
pub(crate) fn explain(controller: &Controller, wanted: &Explained) -> Result<()> {
    let Explained { kind, namespace, name } = wanted;
    once::wait_for_remotes(controller, |remote| remote.obstacle(*kind).is_none())?;
    let slash = if namespace.is_empty() { "" } else { "/" };
    let resource = &controller.context.settings.resources[*kind];
    let object = format!("{resource} {namespace}{slash}{name}");
    let mut text = String::new();
    for remote in controller.remotes().iter() {
        // The name may be a source's or a target's.
        let pair = |role| remote.names.pair(role, *kind, &key::of(namespace, name));
        let pairs: BTreeSet<_> =
            [Role::Source, Role::Target].into_iter().filter_map(pair).collect();
        for pair in pairs {
            if let Some(line) = explain_pair(&controller.context, remote, pair) {
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
    // The reader may have closed the pipe.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// One line about a pair; `None` if neither object exists.
fn explain_pair(context: &SyncContext, remote: &RemoteSync, key: Pair) -> Option<String> {
    if let Some(why) = remote.obstacle(key.kind) {
        return Some(format!("nothing is done: {why}"));
    }
    let kinds = ApiResources::of(&remote.source, &remote.target, key.kind)?;
    let item = WorkItem { key, urgent: true, large: true, failures: 0 };
    let pair = PairContext::new(context, remote, &item, kinds);
    // After each start, uploaded Secrets have to be checked; this is not worth reporting.
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
