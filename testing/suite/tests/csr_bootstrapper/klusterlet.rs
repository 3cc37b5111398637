//! OCM's klusterlet operator itself: what it renders for its agent is what the program is started with, in turns with
//! OCM's own agent, and the rights that it grants are all that either has.

mod container;

use std::{fs, time::SystemTime};

use apiclient::{
    resource::{LEASES, Target},
    time::micro_time,
};
use serde_json::{Value, json};
use suite::{
    audit::{Right, granted},
    cluster::resource,
    dumper, eventually,
    identity::Data,
    needs::{Need, needs},
    ocm::AVAILABLE,
    sidecar::{Sidecar, program},
    spoke::{
        SECRET, Spoke, addon_rights, cluster_rights,
        klusterlet::{asset, klusterlets},
        rights,
    },
    stays, within,
};

use self::container::Container;
use crate::{addon_registration::support::data, support::renewed};

const ADDON: &str = "addon1";

/// What these tests cannot do without.
fn possible() -> bool {
    needs(Need::Real, "OCM's klusterlet operator is there")
        && needs(Need::Command(&["unshare", "-rm", "true"]), "no mount namespaces for this user")
}

/// Who is the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agent {
    Ours,
    Go,
}

impl Agent {
    /// Starts it as the Deployment says, and waits until its probes find it well.
    #[track_caller]
    fn start(self, container: &Container<'_>) -> Sidecar {
        let program = match self {
            Self::Ours => program("csr-bootstrapper"),
            Self::Go => asset("registration"),
        };
        let sidecar = container.start(&program);
        within(60, &format!("the probes of {self:?} find it well"), || container.is_well());
        sidecar
    }
}

/// The condition of this type on an object: status and time.
fn conditions(object: &Value) -> Vec<[String; 3]> {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |it: &Value, field: &str| it[field].as_str().unwrap_or_default().to_owned();
    let mut all: Vec<_> = all
        .iter()
        .map(|it| ["type", "status", "lastTransitionTime"].map(|field| text(it, field)))
        .collect();
    all.sort();
    all
}

/// All that must be the same whichever of the two agents runs.
#[derive(Debug, PartialEq)]
struct Seen {
    cluster: Vec<[String; 3]>,
    addon: Vec<[String; 3]>,
    requests: usize,
    secrets: [Value; 2],
}

impl Seen {
    fn now(spoke: &Spoke, addons: &str) -> Self {
        let cluster = spoke.hub.managed_cluster(&spoke.cluster).expect("the cluster");
        let addon = spoke.hub.addon(&spoke.cluster, ADDON).expect("the add-on");
        let secret = |namespace: &str, name: &str| {
            meaning(&data(&spoke.managed, namespace, name).expect("the Secret"))
        };
        Self {
            cluster: conditions(&cluster),
            addon: conditions(&addon),
            requests: spoke.hub.csrs_of(&spoke.cluster).len(),
            secrets: [
                secret(&spoke.namespace, SECRET),
                secret(addons, &format!("{ADDON}-hub-kubeconfig")),
            ],
        }
    }
}

/// What a Secret says, however its kubeconfig is written.
fn meaning(data: &Data) -> Value {
    let value = |(key, bytes): (&String, &Vec<u8>)| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let value = match key.as_str() {
            "kubeconfig" => serde_yaml::from_str(&text).expect("YAML"),
            _ => json!(text),
        };
        (key.clone(), value)
    };
    Value::Object(data.iter().map(value).collect())
}

/// The add-on's agent renews its Lease.
fn renew_addon(spoke: &Spoke, namespace: &str) {
    let time = json!({"spec": {"renewTime": micro_time(SystemTime::now())}});
    spoke.managed.merge(&LEASES.object(namespace, ADDON), &time);
}

/// The agent that has just been started renews the heartbeat.
#[track_caller]
fn takes_over(spoke: &Spoke, before: Option<&String>) {
    // By default a heartbeat is a minute after the other, and OCM's agent checks its election's Lease twice a minute.
    within(150, "the heartbeat goes on", || renewed(spoke).filter(|time| Some(time) != before));
}

/// What makes the operator render all flags that it has in mode Default for one hub.
fn all_that_can_be_set() -> Value {
    json!({
        "externalServerURLs": [{"url": "https://spoke.example:6443"}],
        "registrationConfiguration": {
            "clientCertExpirationSeconds": 3600,
            "featureGates": [
                {"feature": "ClusterClaim", "mode": "Enable"},
                {"feature": "AddonManagement", "mode": "Enable"},
            ],
            "clusterAnnotations": {"agent.open-cluster-management.io/a": "b"},
            "clusterClaimConfiguration": {
                "maxCustomClusterClaims": 30, "reservedClusterClaimSuffixes": ["a.io", "b.io"],
            },
            "addOnKubeClientRegistrationDriver": {
                "authType": "csr", "token": {"expirationSeconds": 7200},
            },
        },
    })
}

#[test]
fn klusterlet_agent_is_replaced_and_back_unnoticed() {
    if !possible() {
        return;
    }
    let spoke = Spoke::for_klusterlet("swap");
    let deployment = spoke.install(&spoke.namespace, &all_that_can_be_set());
    let container = Container::of(&spoke, &deployment);
    println!("{:?}", container.command_line());
    let mut agent = Agent::Ours.start(&container);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    // Its own check of the credential in the Secret, and of the rights that the hub gave it.
    within(60, "the operator finds the connection to the hub functional", || {
        let klusterlet = spoke.managed.get(&klusterlets().cluster_object(spoke.klusterlet()))?;
        klusterlet["status"].to_string().contains("HubConnectionFunctional").then_some(())
    });
    let files = format!("/proc/{}/root/spoke/hub-kubeconfig", agent.pid());
    eventually("the volume has the files", || {
        Some(dumper::set(files.as_ref())) == spoke.credential()
    });
    // OCM 1.2 asks for a user of its own here, and the program renews what it finds; the other way round costs a request.
    agent.terminate();
    agent = Agent::Go.start(&container);
    let addons = spoke.managed.new_namespace("open-cluster-management-swap-addon");
    spoke.register_addon(&addons, ADDON);
    spoke.wait_until_registered(ADDON);
    let before = Seen::now(&spoke, &addons);
    assert_eq!(before.requests, 2, "the cluster's and the add-on's");
    for round in 1..=3 {
        for next in [Agent::Ours, Agent::Go] {
            agent.terminate();
            renew_addon(&spoke, &addons);
            let last = renewed(&spoke);
            agent = next.start(&container);
            takes_over(&spoke, last.as_ref());
            assert!(container.is_well(), "{}", agent.log());
            assert_eq!(Seen::now(&spoke, &addons), before, "round {round}: {next:?}");
            stays("all is as it was", || Seen::now(&spoke, &addons) == before);
        }
    }
    agent.ends_at_once();
}

/// Whether a service account may do this, wherever no namespace is given.
fn may(spoke: &Spoke, user: &str, namespace: &str, right: &Right) -> bool {
    let reviews = resource("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview");
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let attributes = json!({
        "namespace": namespace, "verb": right.verb, "group": right.group, "version": "*",
        "resource": resource, "subresource": subresource, "name": right.name,
    });
    let review = json!({
        "apiVersion": reviews.api_version(), "kind": reviews.kind,
        "spec": {"user": user, "resourceAttributes": attributes},
    });
    let all = Target { resource: &reviews, namespace: None, name: None, subresource: None };
    spoke.managed.create(&all, &review)["status"]["allowed"] == true
}

/// Of what the manifests grant, the operator grants all, and more than that, as the program's REFERENCE.md says.
#[test]
fn klusterlet_rights_are_all_that_the_program_needs() {
    if !possible() {
        return;
    }
    let spoke = Spoke::for_klusterlet("rights");
    let gate = json!({"feature": "AddonManagement", "mode": "Disable"});
    let without_addons = json!({"registrationConfiguration": {"featureGates": [gate]}});
    let deployment = spoke.install(&spoke.namespace, &without_addons);
    let container = Container::of(&spoke, &deployment);
    let user = format!("system:serviceaccount:{}:{}", spoke.namespace, container.account());
    let anywhere = spoke.managed.new_namespace("rights-anywhere");
    let parts = [
        (rights(), spoke.namespace.as_str()),
        (cluster_rights(), ""),
        (addon_rights(), &*anywhere),
    ];
    for (manifests, namespace) in parts {
        // The operator is not done with the Deployment.
        for right in granted(&manifests) {
            within(30, &format!("{right:?} in {namespace:?}"), || {
                may(&spoke, &user, namespace, &right)
            });
        }
    }
    // Secrets of anybody, and their Leases, whether or not there are add-ons.
    assert!(container.command_line().contains(&"--feature-gates=AddonManagement=false"));
    for (verb, group, kind) in [("get", "", "secrets"), ("update", "coordination.k8s.io", "leases")]
    {
        let right =
            Right { verb: verb.into(), group: group.into(), resource: kind.into(), name: None };
        assert!(may(&spoke, &user, "kube-system", &right), "{right:?}");
    }
}

/// What a cluster becomes that is run with this Klusterlet.
fn joins_with(spoke: &Spoke, more: &Value, flags: &[&str]) {
    let deployment = spoke.install(&spoke.namespace, more);
    let container = Container::of(spoke, &deployment);
    let words = container.command_line();
    println!("{words:?}");
    flags.iter().for_each(|flag| assert!(words.contains(flag), "{flag} in {words:?}"));
    let mut agent = Agent::Ours.start(&container);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    agent.ends_at_once();
}

/// The first of the hubs is away.
#[test]
fn klusterlet_of_several_hubs_is_understood() {
    if !possible() {
        return;
    }
    let spoke = Spoke::for_klusterlet("hubs");
    let away = spoke.hub.bootstrap_kubeconfig("127.0.0.1:1", spoke.how);
    for (name, kubeconfig) in [("hub-a", away), ("hub-b", spoke.bootstrap_kubeconfig())] {
        let data = [("kubeconfig".to_owned(), kubeconfig.into_bytes())].into();
        spoke.put_secret(name, &data);
    }
    let secrets = json!([{"name": "hub-a"}, {"name": "hub-b"}]);
    let local = json!({"kubeConfigSecrets": secrets, "hubConnectionTimeoutSeconds": 200});
    let more = json!({"registrationConfiguration": {
        "featureGates": [{"feature": "MultipleHubs", "mode": "Enable"}],
        "bootstrapKubeConfigs": {"type": "LocalSecrets", "localSecretsConfig": local},
    }});
    let flags = [
        "--bootstrap-kubeconfigs=/spoke/hub-a/kubeconfig",
        "--bootstrap-kubeconfigs=/spoke/hub-b/kubeconfig",
        "--hub-connection-timeout-seconds=200",
        "--feature-gates=MultipleHubs=true",
    ];
    joins_with(&spoke, &more, &flags);
}

/// The agent is on the management cluster, which here is the managed one too.
#[test]
fn klusterlet_hosted_is_understood() {
    if !possible() {
        return;
    }
    let spoke = Spoke::for_klusterlet("hosted");
    let kubeconfig = fs::read(&spoke.managed.kubeconfig).expect("the kubeconfig");
    let data = [("kubeconfig".to_owned(), kubeconfig)].into();
    spoke.put_secret("external-managed-kubeconfig", &data);
    let namespace = spoke.managed.new_namespace("open-cluster-management-hosted-spoke");
    let more = json!({"namespace": namespace, "deployOption": {"mode": "Hosted"}});
    let flags = [
        "--spoke-kubeconfig=/spoke/config/kubeconfig",
        "--terminate-on-files=/spoke/config/kubeconfig",
    ];
    joins_with(&spoke, &more, &flags);
}
