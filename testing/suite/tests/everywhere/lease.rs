//! addon-lease-controller: renews a Lease on the hub while its pod is ready.

use std::process::Command;

use suite::{
    scene::{ADDON, Scene, renew_time},
    sidecar::Sidecar,
    within,
};

use crate::stage::{Peer, Stage};

pub(crate) fn stage(name: &str) -> Box<dyn Stage> {
    Box::new(Scene::new(name))
}

impl Stage for Scene {
    fn peers(&self) -> Vec<Peer<'_>> {
        let account = format!("system:serviceaccount:{}:{ADDON}", self.namespace);
        vec![
            Peer { cluster: &self.managed, relay: &self.managed_relay, user: account },
            Peer { cluster: &self.hub, relay: &self.hub_relay, user: self.hub_user() },
        ]
    }

    fn command(&self, port: u16) -> Command {
        self.command(port)
    }

    fn settle(&self, process: &Sidecar) {
        self.wait_for_renewals(1);
        process.wait_for_code("/readyz", 200);
    }

    /// The Secret is its local cluster's word.
    fn lives_within(&self, seconds: u64, process: &Sidecar) {
        let read = || process.metric("certwatcher_read_certificate_total{target=\"hub\"}");
        let before = read();
        self.put_secret(&self.new_credentials());
        within(seconds, "the Secret is read", || read() > before);
        let before = renew_time(self.lease().as_ref());
        within(seconds, "the Lease is renewed", || renew_time(self.lease().as_ref()) != before);
    }

    /// Nothing is written but the one Lease.
    fn unharmed(&self) {
        for peer in self.peers() {
            for write in peer.cluster.server().writes() {
                let place = (&*write.resource, &*write.namespace);
                assert!(
                    write.user != peer.user || place == ("leases", &*self.cluster),
                    "{} {place:?}",
                    write.verb
                );
            }
        }
    }
}
