//! hub-kubeconfig-dumper: several processes that have written their files.

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use suite::{
    cluster::Cluster,
    identity, pause,
    sidecar::{Sidecar, bare, free_port, program},
};
use tempfile::TempDir;

use crate::{RUNS, table::Table};

const THREADS: f64 = 6.0;

impl Table {
    /// Measures dumpers that have written their files: their memory, and that they send no more requests.
    pub(crate) fn dumper(&mut self, managed: &Cluster) {
        let namespace = managed.new_namespace("budget");
        let pair = identity::certificate(managed, "budget", "budget");
        let data: serde_json::Map<_, _> =
            identity::hub_secret(&managed.address, &managed.ca, &pair)
                .iter()
                .map(|(key, value)| (key.clone(), BASE64_STANDARD.encode(value).into()))
                .collect();
        let name = "hub-kubeconfig-secret";
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
        managed.create(&SECRETS.object(&namespace, name), &secret);
        let directory = TempDir::new().expect("a temporary directory");
        let start = |number: usize| {
            let port = free_port();
            let mut command = bare(&program("hub-kubeconfig-dumper"));
            command.arg("-kubeconfig").arg(&managed.kubeconfig).args(["-namespace", &namespace]);
            command.arg("-hub-kubeconfig-dir").arg(directory.path().join(number.to_string()));
            command.args(["-metrics-port", &port.to_string()]);
            let sidecar = Sidecar::spawn(command, port);
            sidecar.wait_for_code("/readyz", 200);
            sidecar
        };
        let sidecars: Vec<Sidecar> = (0..RUNS).map(start).collect();
        pause(500);
        let before = managed.server().requests().len();
        pause(5000);
        self.at_rest(sidecars.iter(), [614.0, THREADS]);
        let more = managed.server().requests().len() - before;
        self.at_most("requests in 5 s, besides the watch", 0.0, more as f64, "");
        self.ends(sidecars.into_iter().map(|one| ((), one)).collect());
    }
}
