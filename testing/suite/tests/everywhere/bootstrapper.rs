//! csr-bootstrapper: a cluster that has joined, with a heartbeat each second.

use std::process::Command;

use apiclient::resource::SECRETS;
use serde_json::json;
use suite::{
    eventually,
    sidecar::Sidecar,
    spoke::{AGENT, Spoke},
    within,
};

use crate::stage::{Peer, RECOVERY, Stage};

pub(crate) fn stage(name: &str) -> Box<dyn Stage> {
    Box::new(Spoke::auto(name))
}

impl Stage for Spoke {
    fn peers(&self) -> Vec<Peer<'_>> {
        let account = format!("system:serviceaccount:{}:csr-bootstrapper", self.namespace);
        vec![
            Peer { cluster: &self.managed, relay: &self.managed_relay, user: account },
            Peer { cluster: &self.hub.cluster, relay: &self.hub_relay, user: self.user() },
        ]
    }

    fn command(&self, port: u16) -> Command {
        let mut command = self.command(port);
        command.args(["-bootstrap-kubeconfig-secret", &self.bootstrap]);
        command
    }

    fn settle(&self, process: &Sidecar) {
        eventually("the cluster is known", || self.hub.managed_cluster(&self.cluster));
        self.hub.set_lease_duration(&self.cluster, 1);
        process.wait_for_code("/readyz", 200);
        renews(self, RECOVERY);
        renews(self, RECOVERY);
    }

    /// What others took out of the Secret comes back.
    fn lives_within(&self, seconds: u64, _: &Sidecar) {
        let secret = SECRETS.object(&self.namespace, &self.secret);
        self.managed.merge(&secret, &json!({"data": {"agent-name": null}}));
        within(seconds, "the Secret is repaired", || {
            let agent = self.credential()?.get("agent-name")?.clone();
            (agent == AGENT.as_bytes()).then_some(())
        });
        renews(self, seconds);
    }

    /// One certificate is enough.
    fn unharmed(&self) {
        assert_eq!(self.hub.csrs_of(&self.cluster).len(), 1, "requests");
        assert!(self.certificate().is_some());
    }
}

fn renews(spoke: &Spoke, seconds: u64) {
    let time =
        || Some(spoke.hub.heartbeat(&spoke.cluster)?["spec"]["renewTime"].as_str()?.to_owned());
    let before = time();
    within(seconds, "the heartbeat goes on", || time().filter(|now| Some(now) != before.as_ref()));
}
