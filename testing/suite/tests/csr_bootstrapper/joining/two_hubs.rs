//! The stage of a cluster that may join either of two hubs. The second one is always embedded.

use std::{path::PathBuf, sync::Arc};

use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    ocm::{Bootstrap, Hub},
    relay::Relay,
    sidecar::Sidecar,
    spoke::{BOOTSTRAP, Spoke},
    within,
};

use crate::support::{account, beats_again, grant, is_seen, kubeconfig, renews};

/// A switch takes two checks, some patience with the first hub, and some with its certificate on the second.
pub(crate) const SECONDS: u64 = 60;
/// The Secret with the bootstrap kubeconfig of the second one.
const SECOND: &str = "bootstrap-hub2";

/// A cluster and two hubs; the first is that of `spoke`, until the agent has moved on.
pub(crate) struct TwoHubs {
    pub(crate) spoke: Spoke,
    pub(crate) second: Arc<Hub>,
    /// The way to the second one.
    pub(crate) way: Relay,
    /// The bootstrap kubeconfigs, in this order.
    files: [PathBuf; 2],
}

impl TwoHubs {
    pub(crate) fn new(name: &str, how: Bootstrap) -> Self {
        let spoke = Spoke::joining(Hub::new(), name, how);
        let second = Hub::on(Cluster::embedded("hub2"));
        let way = Relay::to(&second.cluster.address);
        let first = spoke.write("hub1.kubeconfig", &spoke.bootstrap_kubeconfig());
        let address = way.address.to_string();
        let kubeconfig = second.bootstrap_kubeconfig(&address, how);
        let files = [first, spoke.write("hub2.kubeconfig", &kubeconfig)];
        Self { spoke, second, way, files }
    }

    /// The bootstrap kubeconfig for the second hub, with a new token.
    pub(crate) fn second_kubeconfig(&self) -> String {
        self.second.bootstrap_kubeconfig(&self.way.address.to_string(), self.spoke.how)
    }

    /// Starts the program with both files, and `more` flags.
    pub(crate) fn start(&self, more: &[&str]) -> Sidecar {
        self.spoke.start_as(|command| {
            command.args(["-feature-gates", "MultipleHubs=true"]).args(more);
            for file in &self.files {
                command.arg("-bootstrap-kubeconfigs").arg(file);
            }
        })
    }

    /// The same with Secrets; that of the second hub does not exist yet.
    pub(crate) fn start_with_secrets(&self) -> Sidecar {
        let rules = json!([{
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECOND], "verbs": ["list", "watch"],
        }]);
        let Spoke { managed, namespace, .. } = &self.spoke;
        grant(managed, (namespace, SECOND), ("User", &account(&self.spoke)), &rules);
        let secrets = format!("{BOOTSTRAP},{SECOND}");
        self.spoke.start_as(|command| {
            command.args(["-feature-gates", "MultipleHubs=true"]);
            command.args(["-bootstrap-kubeconfig-secret", &secrets]);
        })
    }

    pub(crate) fn put_second_secret(&self) {
        let data = [("kubeconfig".to_owned(), self.second_kubeconfig().into_bytes())].into();
        self.spoke.put_secret(SECOND, &data);
    }

    /// Starts the program and waits until it has joined the first hub, with a heartbeat each second.
    #[track_caller]
    pub(crate) fn joins_first(&self, more: &[&str]) -> Sidecar {
        let agent = self.start(more);
        let Spoke { hub, cluster, how, .. } = &self.spoke;
        if *how == Bootstrap::Manual {
            hub.approve_next(cluster);
            hub.accept(cluster);
        }
        eventually("the cluster is there", || hub.managed_cluster(cluster));
        hub.set_lease_duration(cluster, 1);
        is_seen(hub, cluster);
        beats_again(&agent, 2);
        agent
    }

    /// Waits until it has joined the second hub, and serves it alone; that is the stage's from now on. Returns the
    /// first one.
    #[track_caller]
    pub(crate) fn is_on_second(&mut self, agent: &Sidecar) -> Arc<Hub> {
        let address = self.way.address.to_string();
        let arrives = || {
            let credential = self.spoke.credential()?;
            kubeconfig(&credential).contains(&address).then_some(())
        };
        within(SECONDS, &format!("the credential is for hub2:\n{}", agent.log()), arrives);
        let old = std::mem::replace(&mut self.spoke.hub, self.second.clone());
        is_seen(&self.spoke.hub, &self.spoke.cluster);
        self.spoke.hub.set_lease_duration(&self.spoke.cluster, 1);
        renews(&self.spoke);
        eventually("the stored request is removed", || self.spoke.pending().is_none());
        agent.wait_for_code("/readyz", 200);
        old
    }
}
