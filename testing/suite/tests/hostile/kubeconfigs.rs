//! Kubeconfigs that somebody put into a Secret or a file to read the pod's files.

use std::fs;

use dev_apiserver::{Options, Server};
use serde_json::json;
use suite::{eventually, identity, stays};

use crate::subjects::{Agent, Lease};

/// A server of somebody who chose it by a Secret: which tokens is it shown?
struct Thief {
    server: Server,
}

impl Thief {
    fn new() -> Self {
        Self { server: Server::start(Options::default()).expect("a server") }
    }

    /// A kubeconfig that leads to it, with this user.
    fn kubeconfig(&self, user: &serde_json::Value) -> String {
        let (address, ca) = (self.server.address().to_string(), &self.server.ca().certificate_pem);
        identity::kubeconfig(&address, ca, user).to_string()
    }
}

/// `-hub-kubeconfig` and `-remote-kubeconfig` are mounted from Secrets.
#[test]
fn kubeconfig_file_reads_no_file_but_its_neighbours() {
    let subject = Lease::new("kubeconfig-files");
    let mount = subject.scene.directory.path().join("mount");
    fs::create_dir(&mount).expect("a directory");
    let token = subject.scene.write("token", "the-pods-own-token");
    let thief = Thief::new();
    let outside = [token.to_str().expect("a path").to_owned(), "../token".to_owned()];
    for path in &outside {
        let kubeconfig = thief.kubeconfig(&json!({"tokenFile": path}));
        fs::write(mount.join("kubeconfig"), kubeconfig).expect("the file is written");
        let file = mount.join("kubeconfig");
        let more = ["-hub-kubeconfig-secret=", "-hub-kubeconfig", file.to_str().expect("a path")];
        let sidecar = subject.start_with(&more);
        sidecar.wait_for("is not in the directory of the kubeconfig");
        assert!(!sidecar.log().contains("the-pods-own-token"), "{}", sidecar.log());
        stays(path, || thief.server.counters().connections == 0);
    }
    // Beside it a file may be named.
    fs::write(mount.join("token"), "its-own-token").expect("the file is written");
    let kubeconfig = thief.kubeconfig(&json!({"tokenFile": "token"}));
    fs::write(mount.join("kubeconfig"), kubeconfig).expect("the file is written");
    let file = mount.join("kubeconfig");
    let given = ["-hub-kubeconfig-secret=", "-hub-kubeconfig", file.to_str().expect("a path")];
    let _sidecar = subject.start_with(&given);
    eventually("the server is asked", || thief.server.counters().connections > 0);
}

/// Open Cluster Management's self-managed hub has such a path in its bootstrap Secret.
#[test]
fn authority_of_the_own_cluster_may_be_named_in_a_secret() {
    let subject = Agent::new("kubeconfig-authority");
    let text = subject.spoke.bootstrap_kubeconfig();
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let cluster = config["clusters"][0]["cluster"].as_object_mut().expect("a cluster");
    cluster.remove("certificate-authority-data");
    let path = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
    cluster.insert("certificate-authority".into(), json!(path));
    subject.spoke.put_bootstrap(&config.to_string());
    let agent = subject.start();
    // The file is not there in a test: it is what is read, and not a key of that name.
    agent.wait_for(path);
    let other = json!("/etc/passwd");
    config["clusters"][0]["cluster"]["certificate-authority"] = other;
    subject.spoke.put_bootstrap(&config.to_string());
    agent.wait_for("the Secret has no such key");
}
