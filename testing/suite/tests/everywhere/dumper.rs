//! hub-kubeconfig-dumper: the files of a Secret.

use std::process::Command;

use kubeconfig::check_pair;
use suite::{
    dumper::{self, set},
    sidecar::Sidecar,
    within,
};

use crate::stage::{Peer, Stage};

pub(crate) fn stage(name: &str) -> Box<dyn Stage> {
    Box::new(dumper::Stage::with_secret(name).0)
}

impl Stage for dumper::Stage {
    fn peers(&self) -> Vec<Peer<'_>> {
        let user = format!("system:serviceaccount:{}:my-agent", self.namespace);
        vec![Peer { cluster: &self.cluster, relay: &self.relay, user }]
    }

    fn command(&self, port: u16) -> Command {
        self.command(port)
    }

    fn settle(&self, process: &Sidecar) {
        process.wait_for_code("/readyz", 200);
    }

    fn lives_within(&self, seconds: u64, _: &Sidecar) {
        let data = self.credentials();
        self.put_secret(&data);
        within(seconds, "the files follow", || set(&self.path()) == data);
    }

    /// The files are there, and belong together.
    fn unharmed(&self) {
        let files = set(&self.path());
        check_pair(&files["tls.crt"], &files["tls.key"]).expect("a pair");
    }
}
