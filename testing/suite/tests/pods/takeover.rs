//! The klusterlet operator's own Deployments in its modes Singleton and Default, with OCM's images and with ours in
//! turn: neither agent requests a certificate or writes what the other applied.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use apiclient::resource::Resource;
use serde_json::{Value, json};
use suite::{
    audit,
    cluster::{Cluster, resource},
    listing::list,
    ocm::{AVAILABLE, Hub, applied_works, is_true, works},
    pause,
    spoke::{
        Spoke,
        klusterlet::{klusterlets, operate},
    },
    within,
};

use crate::Terminal;

const OURS: &str = "spoke-sidecars:dev";
const OCM: &str = "quay.io/open-cluster-management";
/// The work that stays as it is, and the one that each agent gets to change.
const WORKS: [&str; 2] = ["kept", "edited"];
/// An agent has passed over all works this long after it has applied an edit.
const PASS: u64 = 5_000;

#[test]
#[ignore = "needs a control plane with a node to itself"]
fn agents_take_over_in_the_deployments_of_the_operator() {
    let terminal = Terminal::open();
    let hub = Hub::new();
    operate(&Cluster::real("managed"));
    let modes = ["Singleton", "Default"].map(|mode| Installed::new(&hub, mode));
    modes.iter().for_each(|installed| installed.runs(&terminal, "0"));
    pause(PASS);
    let before = modes.each_ref().map(Installed::seen);
    for turn in 1..=6 {
        println!("turn {turn}");
        modes.iter().for_each(|installed| installed.set_images(turn % 2 == 1));
        modes.iter().for_each(|installed| installed.runs(&terminal, &turn.to_string()));
        pause(PASS);
        assert_eq!(modes.each_ref().map(Installed::seen), before, "turn {turn}");
    }
    let writes = own_writes();
    assert!(writes.contains("default") && modes.iter().all(|mode| !writes.contains(&mode.applied)));
    terminal.run("kubectl --context cluster1 get pods -A");
}

/// A Klusterlet with its cluster, and the namespace of what its works apply.
struct Installed {
    mode: &'static str,
    spoke: Spoke,
    applied: String,
}

impl Installed {
    /// With OCM's images.
    fn new(hub: &Arc<Hub>, mode: &'static str) -> Self {
        let spoke = Spoke::for_klusterlet(&mode.to_lowercase());
        // Pods reach no relay.
        spoke.put_bootstrap(&hub.bootstrap_kubeconfig(&hub.cluster.address, spoke.how));
        let applied = spoke.managed.new_namespace("applied");
        let installed = Self { mode, spoke, applied };
        let spoke = &installed.spoke;
        let mut spec = installed.images(false);
        spec["clusterName"] = json!(spoke.cluster);
        spec["namespace"] = json!(spoke.namespace);
        spec["deployOption"] = json!({"mode": mode});
        let klusterlet = json!({
            "apiVersion": klusterlets().api_version(), "kind": "Klusterlet",
            "metadata": {"name": spoke.klusterlet()}, "spec": spec,
        });
        spoke.managed.create(&klusterlets().everywhere(), &klusterlet);
        spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
        for name in WORKS {
            let object = json!({
                "apiVersion": works().api_version(), "kind": "ManifestWork",
                "metadata": {"name": installed.work(name), "namespace": spoke.cluster},
                "spec": {"workload": {"manifests": installed.manifests(name)}},
            });
            spoke.hub.cluster.create(&works().collection(&spoke.cluster), &object);
        }
        installed
    }

    fn images(&self, are_ours: bool) -> Value {
        let image =
            |name: &str| if are_ours { OURS.to_owned() } else { format!("{OCM}/{name}:dev") };
        match self.mode {
            "Singleton" => json!({"imagePullSpec": image("registration-operator")}),
            _ => json!({
                "registrationImagePullSpec": image("registration"), "workImagePullSpec": image("work"),
            }),
        }
    }

    fn set_images(&self, are_ours: bool) {
        let klusterlets = klusterlets();
        let klusterlet = klusterlets.cluster_object(self.spoke.klusterlet());
        self.spoke.managed.merge(&klusterlet, &json!({"spec": self.images(are_ours)}));
        let images = self.images(are_ours);
        for (agent, field) in self.agents() {
            let deployments = resource("apps", "deployments", "Deployment");
            let name = format!("{}-{agent}", self.spoke.klusterlet());
            within(60, "the operator changes the image", || {
                let deployment =
                    self.spoke.managed.get(&deployments.object(&self.spoke.namespace, &name))?;
                let container = &deployment["spec"]["template"]["spec"]["containers"][0];
                (container["image"] == images[field]).then_some(())
            });
        }
    }

    /// Its Deployments, each with the field for its image.
    fn agents(&self) -> &[(&str, &str)] {
        match self.mode {
            "Singleton" => &[("agent", "imagePullSpec")],
            _ => &[
                ("registration-agent", "registrationImagePullSpec"),
                ("work-agent", "workImagePullSpec"),
            ],
        }
    }

    /// Waits for the pods of now, and until they have applied an edit.
    fn runs(&self, terminal: &Terminal, value: &str) {
        let begun = Instant::now();
        let Spoke { namespace, cluster, .. } = &self.spoke;
        for (agent, _) in self.agents() {
            let deployment = format!("{}-{agent}", self.spoke.klusterlet());
            // The operator gives the work agent a replica after a while.
            terminal.run(&format!(
                "kubectl --context cluster1 -n {namespace} wait --for jsonpath='{{.status.readyReplicas}}'=1 deployment/{deployment} --timeout 120s"
            ));
            terminal.roll_out(namespace, &deployment);
        }
        let mut manifest = self.manifests("edited");
        manifest[0]["data"]["key"] = json!(value);
        let (works, name) = (works(), self.work("edited"));
        let work = works.object(cluster, &name);
        let patch = json!({"spec": {"workload": {"manifests": manifest}}});
        self.spoke.hub.cluster.merge(&work, &patch);
        let maps = resource("", "configmaps", "ConfigMap");
        let map = maps.object("default", &name);
        within(120, "the edit is applied", || {
            (self.spoke.managed.get(&map)?["data"]["key"] == value).then_some(())
        });
        println!("{} applies an edit after {:.1} s", self.mode, begun.elapsed().as_secs_f64());
        for name in WORKS {
            let name = self.work(name);
            within(60, "the hub knows", || {
                let work = self.spoke.hub.cluster.get(&works.object(cluster, &name))?;
                is_true(&work, "Applied").then_some(())
            });
        }
    }

    /// A work's name is part of its record's, which has no cluster in it.
    fn work(&self, name: &str) -> String {
        format!("{}-{name}", self.spoke.cluster)
    }

    fn manifests(&self, work: &str) -> Vec<Value> {
        let metadata = json!({"name": self.work(work), "namespace": self.applied});
        let object = |api: &str, kind: &str, more: Value| {
            let mut object = json!({"apiVersion": api, "kind": kind, "metadata": metadata});
            object
                .as_object_mut()
                .expect("fields")
                .extend(more.as_object().expect("fields").clone());
            object
        };
        if work == "edited" {
            let mut map = object("v1", "ConfigMap", json!({"data": {"key": ""}}));
            map["metadata"]["namespace"] = json!("default");
            return vec![map];
        }
        let labels = json!({"app": "a"});
        let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let ports = json!([{"port": 80}]);
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        vec![
            object("v1", "ConfigMap", json!({"data": {"key": "value"}})),
            object("v1", "Secret", json!({"stringData": {"key": "value"}})),
            object("v1", "ServiceAccount", json!({})),
            object("v1", "Service", json!({"spec": {"selector": labels, "ports": ports}})),
            object(
                "apps/v1",
                "Deployment",
                json!({"spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}}),
            ),
            object("rbac.authorization.k8s.io/v1", "Role", json!({"rules": rules})),
        ]
    }

    /// What has to stay: how many certificates were requested, and by version what the work has on the cluster.
    fn seen(&self) -> (usize, Vec<Value>) {
        let (managed, cluster) = (&self.spoke.managed, &self.spoke.cluster);
        let mut objects = Vec::new();
        for manifest in self.manifests("kept") {
            let text = |field: &str| manifest[field].as_str().expect("a text").to_owned();
            let (api, kind) = (text("apiVersion"), text("kind"));
            let group = api.split_once('/').map_or("", |(group, _)| group).to_owned();
            let plural = format!("{}s", kind.to_lowercase()).into();
            let kind =
                Resource { group: group.into(), version: "v1".into(), plural, kind: kind.into() };
            let object = managed.get(&kind.object(&self.applied, &self.work("kept")));
            objects.push(object.expect("the object")["metadata"]["resourceVersion"].clone());
        }
        let all = list(&managed.client, &applied_works().everywhere(), "")
            .expect("the records are listed");
        let name = self.work("kept");
        let own = all.into_iter().find(|record| record["spec"]["manifestWorkName"] == *name);
        objects.push(own.expect("the record"));
        (self.spoke.hub.csrs_of(cluster).len(), objects)
    }
}

/// The namespaces that our agents wrote in. OCM's writes some objects at each of its starts, without a change.
fn own_writes() -> BTreeSet<String> {
    let requests = audit::requests("managed", |event| {
        audit::text(event, "/userAgent").starts_with("klusterlet-agent/")
            && audit::text(event, "/objectRef/resource") != "leases"
            && !["get", "list", "watch"].contains(&audit::text(event, "/verb"))
    });
    requests.iter().map(|event| audit::text(event, "/objectRef/namespace").to_owned()).collect()
}
