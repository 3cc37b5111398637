//! OCM's placement controller, which chooses clusters by what they report of themselves.

use apiclient::resource::Resource;
use serde_json::{Value, json};
use suite::{
    listing::list,
    needs::{Need, needs},
    ocm::{SET_LABEL, bindings, clusters, decisions, placements, serve_claims, sets},
    spoke::Spoke,
    stays, within,
};

use crate::{capacity::Node, claim::put, support::joins};

const WHY: &str = "OCM's placement controller is there";

/// A cluster in a set of its own, and a namespace of the hub that is bound to the set.
pub(crate) struct Chooser<'a> {
    spoke: &'a Spoke,
    pub(crate) namespace: String,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(spoke: &'a Spoke) -> Self {
        let namespace = spoke.hub.cluster.new_namespace("placements");
        let chooser = Self { spoke, namespace };
        chooser.create(&sets(), None, json!({"metadata": {"name": chooser.set()}}));
        let spec = json!({"clusterSet": chooser.set()});
        chooser.create(&bindings(), Some(&chooser.namespace), chooser.object(chooser.set(), spec));
        spoke.hub.change(&spoke.cluster, &json!({"metadata": {"labels": chooser.labels()}}));
        chooser
    }

    pub(crate) fn set(&self) -> &str {
        &self.spoke.namespace
    }

    fn labels(&self) -> Value {
        json!({SET_LABEL: self.set()})
    }

    fn object(&self, name: &str, spec: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": spec})
    }

    fn create(&self, kind: &Resource, namespace: Option<&str>, mut object: Value) {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        let all = match namespace {
            Some(namespace) => kind.collection(namespace),
            None => kind.everywhere(),
        };
        self.spoke.hub.cluster.create(&all, &object);
    }

    /// Has a Placement choose from the set.
    fn choose(&self, name: &str, mut spec: Value) {
        spec["clusterSets"] = json!([self.set()]);
        self.create(&placements(), Some(&self.namespace), self.object(name, spec));
    }

    /// Another cluster of the set, which nobody runs: the controller knows it by what it is given here.
    fn rival(&self, resources: &Value) -> String {
        let name = format!("{}-rival", self.spoke.namespace);
        let metadata = json!({"name": name, "labels": self.labels()});
        let object = json!({"metadata": metadata, "spec": {"hubAcceptsClient": false}});
        self.create(&clusters(), None, object);
        self.endow(&name, resources);
        name
    }

    fn endow(&self, name: &str, resources: &Value) {
        let status = json!({"capacity": resources, "allocatable": resources});
        let (clusters, patch) = (clusters(), json!({"status": status}));
        self.spoke.hub.cluster.merge(&clusters.cluster_object(name).status(), &patch);
    }

    /// The clusters that a Placement chose; None as long as it has not chosen.
    fn chosen(&self, name: &str) -> Option<Vec<String>> {
        let labels = format!("cluster.open-cluster-management.io/placement={name}");
        let all =
            list(&self.spoke.hub.cluster.client, &decisions().collection(&self.namespace), &labels);
        let all = all.expect("the decisions are listed");
        let lists = all.iter().filter_map(|decision| decision["status"]["decisions"].as_array());
        let names = lists.flatten().filter_map(|it| it["clusterName"].as_str());
        let names = names.map(str::to_owned).collect();
        (!all.is_empty()).then_some(names)
    }

    #[track_caller]
    fn chooses(&self, name: &str, expected: &[&str]) {
        // The controller may only just have started.
        within(60, &format!("{name} chooses {expected:?}"), || {
            self.chosen(name).is_some_and(|chosen| chosen == expected)
        });
    }
}

#[test]
fn placement_by_a_claim_chooses_the_cluster_with_it() {
    if !needs(Need::Real, WHY) {
        return;
    }
    let spoke = Spoke::auto("placement-claim");
    serve_claims(&spoke.managed);
    let claim = format!("region.{}", spoke.namespace);
    put(&spoke, &claim, "north", &json!({}));
    let _agent = joins(&spoke, &[]);
    let chooser = Chooser::new(&spoke);
    let by_value = |value: &str| {
        let expression = json!({"key": claim, "operator": "In", "values": [value]});
        let selector = json!({"claimSelector": {"matchExpressions": [expression]}});
        json!({"predicates": [{"requiredClusterSelector": selector}]})
    };
    for value in ["north", "south"] {
        chooser.choose(value, by_value(value));
    }
    chooser.chooses("north", &[&spoke.cluster]);
    chooser.chooses("south", &[]);
    put(&spoke, &claim, "south", &json!({}));
    chooser.chooses("south", &[&spoke.cluster]);
    chooser.chooses("north", &[]);
}

/// A cluster that does not tell its capacity has no score, and comes after the one that does.
#[test]
fn placement_by_resources_prefers_the_larger_cluster() {
    if !needs(Need::Real, WHY) {
        return;
    }
    let spoke = Spoke::auto("placement-score");
    // On real servers, the nodes of other tests have some too.
    let much = json!({"cpu": "4000", "memory": "4Ti"});
    let _node = Node::new(&spoke, "a", &much);
    let _agent = joins(&spoke, &[]);
    let chooser = Chooser::new(&spoke);
    let rival = chooser.rival(&json!({"cpu": "1000", "memory": "1Ti"}));
    let prioritizers = ["ResourceAllocatableCPU", "ResourceAllocatableMemory"];
    let by = |prioritizer: &str| {
        let coordinate = json!({"type": "BuiltIn", "builtIn": prioritizer});
        let configurations = json!([{"scoreCoordinate": coordinate, "weight": 1}]);
        json!({
            "numberOfClusters": 1,
            // The controller alone taints a cluster that nobody runs.
            "tolerations": [{"operator": "Exists"}],
            "prioritizerPolicy": {"mode": "Exact", "configurations": configurations},
        })
    };
    for prioritizer in prioritizers {
        chooser.choose(&prioritizer.to_lowercase(), by(prioritizer));
    }
    for prioritizer in prioritizers {
        chooser.chooses(&prioritizer.to_lowercase(), &[&spoke.cluster]);
    }
    stays("it remains", || {
        prioritizers.iter().all(|prioritizer| {
            let chosen = chooser.chosen(&prioritizer.to_lowercase());
            chosen.is_some_and(|chosen| chosen == [spoke.cluster.as_str()])
        })
    });
    // Now that one has more.
    chooser.endow(&rival, &json!({"cpu": "4000k", "memory": "4Pi"}));
    for prioritizer in prioritizers {
        chooser.chooses(&prioritizer.to_lowercase(), &[&rival]);
    }
}
