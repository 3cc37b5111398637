//! Namespaces of the spoke that the hub's cluster sets manage. The agent creates and labels them, and reports them in
//! the ManagedCluster's status. It never deletes any: if the hub no longer manages one, only its label changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Instant, SystemTime},
};

use apiclient::{
    api::PartialObjectMetadata,
    client::{Client, Patch},
    error::{Error, Result},
    log_object,
    resource::{NAMESPACES, valid_label},
    stop::Stop,
    watch::Selection,
};
use log::Level;
use serde_json::{Value, json};

use crate::{
    agent::Agent,
    conditions::{Condition, changed},
    pacing::Pace,
    sha256,
    state::{HubSession, MAX_NAMESPACES},
};

/// The prefix of the hub's hash (ocm `pkg/registration/spoke/managedcluster/managed_namespace_reconcile.go`).
const LABEL_PREFIX: &str = "clusterset.open-cluster-management.io/";
/// Maximum length of a label's name.
const MAX_LABEL_NAME: usize = 63;

pub(crate) fn follow(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        let selector = format!("{}=true", label(&session.client.config().server));
        let all = Selection::all(NAMESPACES.everywhere());
        let selection = Selection { labels: &selector, metadata_only: true, ..all };
        let (store, spoke, stop) = (&session.namespaces, agent.spoke(), &session.stop);
        let mut parse = |_: PartialObjectMetadata| Some(());
        store.run(spoke, &selection, stop, &mut parse, &mut || agent.stop.wake());
    }
}

/// The namespaces that a session's hub manages, and the writes of its label.
pub(crate) struct ManagedNamespaces<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    label: String,
    paces: BTreeMap<String, Pace>,
    failures: BTreeMap<String, String>,
}

impl<'a> ManagedNamespaces<'a> {
    pub(crate) fn new(agent: &'a Agent, session: &'a HubSession) -> Self {
        let label = label(&session.client.config().server);
        Self { agent, session, label, paces: BTreeMap::new(), failures: BTreeMap::new() }
    }

    pub(crate) fn reconcile(&mut self, cluster: &Value) -> Instant {
        let (now, wanted) = (Instant::now(), wanted(cluster));
        let later = now + Stop::SLICE;
        let Some(labelled) = self.labelled() else { return later };
        self.paces.retain(|name, _| wanted.contains(name) || labelled.contains(name));
        self.failures.retain(|name, _| wanted.contains(name) && !labelled.contains(name));
        let mut until = later;
        for name in wanted.union(&labelled) {
            let managed = wanted.contains(name);
            let pace = self.paces.entry(name.clone()).or_default();
            match pace.due(managed != labelled.contains(name), now) {
                Some(due) if due <= now => {
                    self.write(name, managed);
                    return now;
                }
                Some(due) => until = until.min(due),
                None => {}
            }
        }
        until
    }

    fn labelled(&self) -> Option<BTreeSet<String>> {
        self.session.namespaces.read(|all| all.keys().cloned().collect())
    }

    fn write(&mut self, name: &String, managed: bool) {
        let namespaces = &self.session.namespaces;
        let (target, revision) = (NAMESPACES.cluster_object(name), namespaces.revision());
        let pace = self.paces.entry(name.clone()).or_default();
        match put_label(self.agent.spoke(), name, &self.label, managed) {
            Ok(()) => {
                pace.wrote(Instant::now());
                self.failures.remove(name);
                namespaces.put(revision, name, managed.then_some(()));
                let what = if managed { "managed" } else { "no longer managed" };
                log_object!(Level::Info, target; "the namespace is {what} by the hub");
            }
            Err(error) => {
                let level = pace.failed(&error, Instant::now()).level();
                log_object!(level, target, error:% = error; "a namespace of the hub cannot be labelled");
                self.failures.insert(name.clone(), format!("Failed to apply namespace: {error}"));
            }
        }
    }

    /// Returns the `managedNamespaces` of the cluster's status with the results; `None` if the hub has them.
    pub(crate) fn status(&self, cluster: &Value, now: SystemTime) -> Option<Value> {
        status(cluster, (&self.labelled().unwrap_or_default(), &self.failures), now)
    }
}

/// Returns the label of the hub at `server`: `true` on namespaces that it manages, `false` on formerly managed ones.
fn label(server: &str) -> String {
    format!("{LABEL_PREFIX}{}", &sha256(server.as_bytes())[..MAX_LABEL_NAME])
}

/// Returns the namespaces that the hub manages; none once the ManagedCluster is being deleted.
fn wanted(cluster: &Value) -> BTreeSet<String> {
    if !cluster["metadata"]["deletionTimestamp"].is_null() {
        return BTreeSet::new();
    }
    let all = cluster["status"]["managedNamespaces"].as_array().into_iter().flatten();
    let names = all.filter_map(|namespace| namespace["name"].as_str());
    names.filter(|name| valid_label(name)).take(MAX_NAMESPACES).map(str::to_owned).collect()
}

/// Labels a namespace; creates it if it is absent and managed.
fn put_label(spoke: &Client, name: &str, label: &str, managed: bool) -> Result<()> {
    let (target, value) = (NAMESPACES.cluster_object(name), if managed { "true" } else { "false" });
    let labels = json!({label: value});
    let patch = json!({"metadata": {"labels": labels}});
    match spoke.patch(&target, Patch::Merge, &patch) {
        Err(Error::NotFound(_)) if managed => {
            let new = json!({
                "apiVersion": NAMESPACES.api_version(), "kind": NAMESPACES.kind,
                "metadata": {"name": name, "labels": labels},
            });
            spoke.create(&target.siblings(), &new).map(drop)
        }
        Ok(_) | Err(Error::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns `managedNamespaces` with the results so far; `None` if the hub has them.
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
            Some(error) => Condition::new("False", "NamespaceApplyFailed", error.clone()),
            None if labelled.contains(name) => {
                let message = "Namespace successfully applied and managed".to_owned();
                Condition::new("True", "NamespaceApplied", message)
            }
            None => continue,
        };
        if let Some(conditions) = changed(namespace, [("NamespaceAvailable", &condition)], now) {
            namespace["conditions"] = conditions;
        }
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
    fn managed_namespace_names_come_from_the_status() {
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
}
