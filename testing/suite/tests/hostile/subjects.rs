//! The programs on their stages, each as its manifest runs it.

use std::{
    net::{IpAddr, Ipv4Addr},
    process::Command,
    sync::Arc,
};

use apiclient::resource::LEASES;
use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Action, Options, Rule, Server};
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    manifest::Container,
    ocm::{Bootstrap, Hub, PREFIX},
    scene::{ADDON, POD, Scene},
    sidecar::Sidecar,
    spoke::Spoke,
    sync::{Place, Setting, Stage, WIDGETS, secrets},
    within,
};

/// A hub and a cluster, both at this address.
fn servers(ip: IpAddr) -> (Arc<Cluster>, Arc<Cluster>) {
    let start = |name| Cluster::embedded_with(name, Options { ip, ..Options::default() });
    (start("hub"), start("managed"))
}

/// What csr-bootstrapper and what is beside it stand on.
fn spoke(ip: IpAddr, name: &str) -> Spoke {
    let (hub, managed) = servers(ip);
    Spoke::between(Hub::on(hub), managed, name, Bootstrap::Auto)
}

/// addon-lease-controller in the pod of a healthy add-on.
pub(crate) struct Lease {
    pub(crate) scene: Scene,
    pub(crate) container: Container,
}

impl Lease {
    pub(crate) fn new(name: &str) -> Self {
        Self::on(Ipv4Addr::LOCALHOST.into(), name)
    }

    pub(crate) fn on(ip: IpAddr, name: &str) -> Self {
        let (hub, managed) = servers(ip);
        let subject = Self {
            scene: Scene::on(hub, managed, name),
            container: Container::of("addon-lease-controller"),
        };
        subject.put_pod(&json!({}));
        subject
    }

    /// A pod with the containers of the manifest and `more` in its status.
    pub(crate) fn put_pod(&self, more: &Value) {
        let namespace = &self.scene.namespace;
        let containers = ["my-addon", "addon-lease-controller"].map(|name| json!({"name": name}));
        let mut status = more.clone();
        status["containerStatuses"] = json!([{"name": "my-addon", "ready": true}]);
        self.scene.managed.server().put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": POD, "namespace": namespace},
            "spec": {"containers": containers}, "status": status,
        }));
    }

    /// With a period of a second, so that it asks often.
    pub(crate) fn start(&self) -> Sidecar {
        self.start_with(&["-lease-duration=1"])
    }

    pub(crate) fn start_with(&self, more: &[&str]) -> Sidecar {
        self.start_as(|command| {
            command.args(more);
        })
    }

    pub(crate) fn start_as(&self, change: impl FnOnce(&mut Command)) -> Sidecar {
        // As the manifest says for hubs that read the Lease on the hub.
        let mut command = self.container.command(&[("lease-target", "both")]);
        command
            .arg(format!("-lease-namespace={}", self.scene.cluster))
            .arg(format!("-hub-kubeconfig-secret={}", suite::scene::SECRET))
            .arg("-kubeconfig")
            .arg(self.scene.managed_kubeconfig())
            .env("POD_NAME", POD)
            .env("POD_NAMESPACE", &self.scene.namespace)
            .env("WATCH_NAMESPACE", &self.scene.namespace);
        change(&mut command);
        self.container.start(command)
    }

    /// Both Leases are renewed from now on.
    #[track_caller]
    pub(crate) fn renews(&self, sidecar: &Sidecar) {
        for (cluster, namespace) in self.leases() {
            let time = || {
                cluster.get(&LEASES.object(namespace, ADDON))?["spec"]["renewTime"]
                    .as_str()
                    .map(str::to_owned)
            };
            let before = time();
            within(40, &format!("renewed again\n{}", sidecar.log()), || {
                time().filter(|now| Some(now) != before.as_ref())
            });
        }
        assert_eq!(sidecar.ask("/healthz").0, 200);
    }

    fn leases(&self) -> [(&Arc<Cluster>, &str); 2] {
        let Scene { hub, managed, cluster, namespace, .. } = &self.scene;
        [(hub, cluster), (managed, namespace)]
    }
}

/// csr-bootstrapper of a cluster that the hub accepts automatically.
pub(crate) struct Agent {
    pub(crate) spoke: Spoke,
    pub(crate) container: Container,
}

impl Agent {
    pub(crate) fn new(name: &str) -> Self {
        Self::on(Ipv4Addr::LOCALHOST.into(), name)
    }

    pub(crate) fn on(ip: IpAddr, name: &str) -> Self {
        Self { spoke: spoke(ip, name), container: Container::of("csr-bootstrapper") }
    }

    pub(crate) fn start(&self) -> Sidecar {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, more: &[&str]) -> Sidecar {
        let mut command = self.container.command(&[("cluster-name", &self.spoke.cluster)]);
        command
            .arg("-kubeconfig")
            .arg(self.spoke.managed_kubeconfig())
            .args(more)
            .env("POD_NAMESPACE", &self.spoke.namespace);
        self.container.start(command)
    }

    /// One that has joined, and gives a sign of life each second.
    #[track_caller]
    pub(crate) fn joined(&self, more: &[&str]) -> Sidecar {
        let agent = self.start_with(more);
        within(40, "it has joined", || agent.ask("/readyz").0 == 200);
        self.spoke.hub.set_lease_duration(&self.spoke.cluster, 1);
        self.sends_heartbeats(&agent);
        agent
    }

    /// The heartbeat on the hub is renewed from now on.
    #[track_caller]
    pub(crate) fn sends_heartbeats(&self, agent: &Sidecar) {
        self.sends_heartbeats_within(40, agent);
    }

    #[track_caller]
    pub(crate) fn sends_heartbeats_within(&self, seconds: u64, agent: &Sidecar) {
        let Spoke { hub, cluster, .. } = &self.spoke;
        let time = || hub.heartbeat(cluster)?["spec"]["renewTime"].as_str().map(str::to_owned);
        let before = time();
        within(seconds, &format!("a sign of life\n{}", agent.log()), || {
            time().filter(|now| Some(now) != before.as_ref())
        });
    }

    pub(crate) fn hub(&self) -> &Server {
        self.spoke.hub.cluster.server()
    }

    /// Whom its certificate names.
    pub(crate) fn user(&self) -> String {
        let credential = self.spoke.credential().expect("the Secret");
        let name = |key| String::from_utf8_lossy(&credential[key]).into_owned();
        format!("{PREFIX}{}:{}", name("cluster-name"), name("agent-name"))
    }
}

/// A rule for all answers about one kind.
pub(crate) fn about(resource: &str, verb: &str, action: Action) -> Rule {
    Rule::new(action).resource(resource).verb(verb)
}

/// remote-sync between a hub and its local cluster.
pub(crate) struct Remote {
    pub(crate) stage: Stage,
    pub(crate) container: Container,
}

impl Remote {
    pub(crate) fn new(name: &str) -> Self {
        Self::on(Ipv4Addr::LOCALHOST.into(), name)
    }

    pub(crate) fn on(ip: IpAddr, name: &str) -> Self {
        let (hub, own) = servers(ip);
        // The names of the manifest.
        let setting = Setting::safe(&[&WIDGETS]).same_names();
        let stage = Stage::between(own, vec![("hub", hub)], name, setting);
        let place = Place::new(&stage.own.cluster, secrets(), &stage.own.home, KUBECONFIG);
        let kubeconfig = BASE64_STANDARD.encode(stage.remote().kubeconfig());
        place.create(&json!({"data": {"kubeconfig": kubeconfig}}));
        stage.own.cluster.create_namespace(&stage.namespace);
        Self { stage, container: Container::of("remote-sync") }
    }

    pub(crate) fn start(&self) -> Sidecar {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, more: &[&str]) -> Sidecar {
        let home = &self.stage.own.home;
        let mut command = self.container.command(&[
            ("resource", &WIDGETS.flag()),
            ("remote-kubeconfig-secret", &format!("hub={home}/{KUBECONFIG}")),
            ("source-namespace", &self.stage.namespace),
            ("target-namespace", &self.stage.namespace),
        ]);
        let own = self.stage.write("own.kubeconfig", &self.stage.own.kubeconfig());
        command.arg("-kubeconfig").arg(own).args(["-namespace", home]).args(more);
        self.container.start(command)
    }

    /// A widget of the hub that is made now arrives.
    #[track_caller]
    pub(crate) fn copies(&self, sidecar: &Sidecar, name: &str) {
        self.source(name).create_number(1);
        let target = self.stage.target(&WIDGETS, name);
        within(40, &format!("{name} arrives\n{}", sidecar.log()), || {
            target.number().filter(|number| *number == 1)
        });
        assert_eq!(sidecar.ask("/healthz").0, 200);
    }

    pub(crate) fn source(&self, name: &str) -> Place {
        self.stage.source(&WIDGETS, name)
    }

    pub(crate) fn hub(&self) -> &Server {
        self.stage.remote().cluster.server()
    }
}

/// The Secret of the manifest.
const KUBECONFIG: &str = "hub-kubeconfig-secret";
