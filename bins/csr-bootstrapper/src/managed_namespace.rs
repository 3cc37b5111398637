//! Namespaces of the spoke that the hub's cluster sets manage: created, labelled, and reported in the ManagedCluster's
//! status. None is ever deleted: when the hub no longer manages it, only its label changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    api::PartialObjectMetadata,
    backoff::Backoff,
    client::Patch,
    controller,
    error::{Error, Result},
    log_object,
    resource::{NAMESPACES, valid_label},
    status_writer::StatusWriter,
    stop::Stop,
    watch::{self, Selection},
};
use log::Level;
use serde_json::{Value, json};
use sidecar::runtime;

use crate::{
    agent::{Agent, PAGE},
    conditions::set,
    digest::sha256,
    state::HubSession,
};

/// More namespaces than this are left alone: each costs memory, and a request.
pub(crate) const MAX_NAMESPACES: usize = 500;
/// Before the hub's hash (ocm `pkg/registration/spoke/managedcluster/managed_namespace_reconcile.go`).
const LABEL_PREFIX: &str = "clusterset.open-cluster-management.io/";
/// The name of a label is not longer.
const MAX_LABEL_NAME: usize = 63;

/// The longest wait between two attempts to find the first namespace.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The writes of the hub's label in one session.
pub(crate) struct ManagedNamespaces {
    label: String,
    /// By the namespace's name.
    writer: StatusWriter<String>,
    failures: BTreeMap<String, String>,
}

impl ManagedNamespaces {
    /// Starts to watch the namespaces with the label of the session's hub.
    pub(crate) fn start(agent: &Arc<Agent>, session: &Arc<HubSession>) -> Self {
        let label = label(&session.client.config().server);
        let (agent, session, selector) = (agent.clone(), session.clone(), format!("{label}=true"));
        if let Err(error) =
            runtime::spawn("namespaces", move || follow(&agent, &session, &selector))
        {
            log::warn!(error:% = error; "the hub's namespaces are not watched");
        }
        Self { label, writer: StatusWriter::default(), failures: BTreeMap::new() }
    }

    /// Labels a namespace if that is due; returns when to come again.
    pub(crate) fn reconcile(
        &mut self,
        agent: &Agent,
        session: &HubSession,
        cluster: &Value,
    ) -> Instant {
        let (now, wanted) = (Instant::now(), wanted(cluster));
        let later = now + Stop::SLICE;
        let Some(labelled) = labelled(session) else { return later };
        self.writer.retain(|name| wanted.contains(name) || labelled.contains(name));
        self.failures.retain(|name, _| wanted.contains(name) && !labelled.contains(name));
        for name in wanted.intersection(&labelled) {
            self.writer.due(name, false);
        }
        let mut until = later;
        for (name, managed) in due(&wanted, &labelled) {
            let not_before = self.writer.pace(name).not_before;
            if not_before <= now {
                self.write(agent, session, name, managed);
                return now;
            }
            until = until.min(not_before);
        }
        until
    }

    fn write(&mut self, agent: &Agent, session: &HubSession, name: &String, managed: bool) {
        let (target, revision) = (NAMESPACES.cluster_object(name), session.namespaces.revision());
        match put_label(agent, name, &self.label, managed) {
            Ok(()) => {
                self.writer.wrote(name);
                self.failures.remove(name);
                session.namespaces.put(revision, name, managed.then_some(()));
                let what = if managed { "managed" } else { "no longer managed" };
                log_object!(Level::Info, target; "the namespace is {what} by the hub");
            }
            Err(error) => {
                let level = self.writer.failed(name, &error);
                log_object!(level, target, error:% = error; "a namespace of the hub cannot be labelled");
                self.failures.insert(name.clone(), format!("Failed to apply namespace: {error}"));
            }
        }
    }

    /// The `managedNamespaces` of the cluster's status with the results; `None` if the hub has them.
    pub(crate) fn status(
        &self,
        session: &HubSession,
        cluster: &Value,
        now: SystemTime,
    ) -> Option<Value> {
        let labelled = labelled(session).unwrap_or_default();
        status(cluster, (&labelled, &self.failures), now)
    }
}

/// The names of the namespaces with the label, once they are known.
fn labelled(session: &HubSession) -> Option<BTreeSet<String>> {
    session.namespaces.read(|all| all.keys().cloned().collect())
}

/// Keeps the session's namespaces up to date, from the first on: most clusters never have one.
fn follow(agent: &Agent, session: &HubSession, selector: &str) {
    if is_needed(agent, session, selector) {
        let mut parse = |_: PartialObjectMetadata| Some(());
        let (client, selection) = (agent.spoke(), selection(selector));
        let mut wake = || agent.stop.wake();
        session.namespaces.run(client, &selection, &session.stop, &mut parse, &mut wake);
    }
}

/// Waits until the hub manages a namespace, unless it managed one before; `false` at the end of the session.
fn is_needed(agent: &Agent, session: &HubSession, selector: &str) -> bool {
    let (mut is_needed, mut backoff) = (false, Backoff::new(MAX_BACKOFF));
    let mut list_at = Some(Instant::now());
    controller::run(&agent.stop, || {
        let now = Instant::now();
        if session.stop.raised() {
            return None;
        }
        is_needed = session.managed_cluster().is_some_and(|cluster| !wanted(&cluster).is_empty());
        if !is_needed && list_at.is_some_and(|at| at <= now) {
            list_at = match any(agent, session, selector) {
                Ok(any) => {
                    is_needed = any;
                    None
                }
                // Without the right nobody wants namespaces to be managed.
                Err(Error::Forbidden(_)) => None,
                Err(error) => Some(now + backoff.failed(&error, now, fastrand::f64()).wait),
            };
        }
        (!is_needed).then(|| list_at.unwrap_or(now + Stop::SLICE))
    });
    is_needed
}

/// Returns whether a namespace has the label now.
fn any(agent: &Agent, session: &HubSession, selector: &str) -> Result<bool> {
    let mut any = false;
    watch::list(agent.spoke(), &selection(selector), &session.stop, &mut |_| {
        any = true;
        ControlFlow::Break(())
    })?;
    Ok(any)
}

fn selection(selector: &str) -> Selection<'_> {
    let target = NAMESPACES.everywhere();
    Selection { labels: selector, metadata_only: true, page: PAGE, ..Selection::all(target) }
}

/// The label of the hub at `server`: `true` on the namespaces that it manages, `false` on those that it managed.
fn label(server: &str) -> String {
    format!("{LABEL_PREFIX}{}", &sha256(server.as_bytes())[..MAX_LABEL_NAME])
}

/// The namespaces that the hub manages; none once the ManagedCluster is being deleted.
fn wanted(cluster: &Value) -> BTreeSet<String> {
    if !cluster["metadata"]["deletionTimestamp"].is_null() {
        return BTreeSet::new();
    }
    let all = cluster["status"]["managedNamespaces"].as_array().into_iter().flatten();
    let names = all.filter_map(|namespace| namespace["name"].as_str());
    names.filter(|name| valid_label(name)).take(MAX_NAMESPACES).map(str::to_owned).collect()
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

/// `managedNamespaces` with the results for those that are `labelled`, or whose label failed; `None` if the hub has them.
fn status(
    cluster: &Value,
    (labelled, failures): (&BTreeSet<String>, &BTreeMap<String, String>),
    now: SystemTime,
) -> Option<Value> {
    let before = &cluster["status"]["managedNamespaces"];
    let mut all = before.as_array()?.clone();
    for namespace in &mut all {
        let name = namespace["name"].as_str().unwrap_or_default();
        let condition = match failures.get(name) {
            Some(error) => ["False", "NamespaceApplyFailed", error],
            None if labelled.contains(name) => {
                ["True", "NamespaceApplied", "Namespace successfully applied and managed"]
            }
            None => continue,
        };
        let mut conditions = namespace["conditions"].as_array().cloned().unwrap_or_default();
        let [status, reason, message] = condition;
        set(&mut conditions, ["NamespaceAvailable", status, reason, message], now);
        namespace["conditions"] = Value::Array(conditions);
    }
    let all = Value::Array(all);
    (all != *before).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_namespace_label_is_that_of_the_hub() {
        // sha256sum of the text.
        let expected = "clusterset.open-cluster-management.io/\
            100680ad546ce6a577f42f52df33b4cfdca756859e664b8d7de329b150d09ce";
        assert_eq!(label("https://example.com"), expected);
        assert_eq!(expected.split_once('/').unwrap().1.len(), MAX_LABEL_NAME);
    }

    fn cluster(namespaces: &Value) -> Value {
        json!({"metadata": {"name": "cluster1"}, "status": {"managedNamespaces": namespaces}})
    }

    #[test]
    fn managed_namespace_names_are_those_of_the_status() {
        let named = json!([{"name": "a", "clusterSet": "s"}, {"name": "b"}, {"name": "a"}]);
        assert_eq!(wanted(&cluster(&named)), BTreeSet::from(["a".into(), "b".into()]));
        let mut deleted = cluster(&named);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-23T10:00:00Z");
        for none in [cluster(&json!(null)), cluster(&json!([])), deleted, json!(null)] {
            assert_eq!(wanted(&none), BTreeSet::new(), "{none}");
        }
        for odd in [json!([{"name": "../../x"}]), json!([7]), json!([{"name": ""}]), json!("x")] {
            assert_eq!(wanted(&cluster(&odd)), BTreeSet::new(), "{odd}");
        }
        let many: Vec<_> = (0..1000).map(|number| json!({"name": format!("n{number}")})).collect();
        assert_eq!(wanted(&cluster(&json!(many))).len(), MAX_NAMESPACES);
    }

    #[test]
    fn managed_namespace_conditions_are_written_when_they_change() {
        let now = SystemTime::UNIX_EPOCH;
        let hub =
            cluster(&json!([{"name": "a", "clusterSet": "s"}, {"name": "b", "clusterSet": "t"}]));
        let condition = |status: &str, reason: &str, message: &str| {
            json!([{"type": "NamespaceAvailable", "status": status, "reason": reason,
                "message": message, "lastTransitionTime": "1970-01-01T00:00:00Z"}])
        };
        let good =
            condition("True", "NamespaceApplied", "Namespace successfully applied and managed");
        let bad = condition("False", "NamespaceApplyFailed", "no right");
        let labelled = BTreeSet::from(["a".into(), "other".into()]);
        let mut failures = BTreeMap::new();
        let expected = json!([
            {"name": "a", "clusterSet": "s", "conditions": good}, {"name": "b", "clusterSet": "t"},
        ]);
        assert_eq!(status(&hub, (&labelled, &failures), now), Some(expected.clone()));
        assert_eq!(status(&cluster(&expected), (&labelled, &failures), now), None);
        failures.insert("b".into(), "no right".into());
        let expected = json!([
            {"name": "a", "clusterSet": "s", "conditions": good},
            {"name": "b", "clusterSet": "t", "conditions": bad},
        ]);
        assert_eq!(status(&hub, (&labelled, &failures), now), Some(expected));
        for none in [json!(null), cluster(&json!(null)), cluster(&json!([]))] {
            assert_eq!(status(&none, (&labelled, &failures), now), None, "{none}");
        }
    }

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
