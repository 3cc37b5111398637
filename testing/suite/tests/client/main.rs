//! The REST client `apiclient` against the embedded server: wrong defaults of its libraries, and the duties of a
//! Kubernetes client.

mod connections;
mod credentials;
mod proxies;
mod requests;
mod roots;
mod streams;
mod trust;
mod watches;

use std::time::Duration;

use apiclient::{
    client::{Client, Reload, Timeouts},
    resource::{LEASES, Target},
};
use dev_apiserver::{Options, Server};
use kubeconfig::config::{Auth, ClusterConfig, KeyPair, Trust};
use serde_json::{Value, json};

/// A server, and an access to it with a client certificate.
fn server() -> (Server, ClusterConfig) {
    let server = Server::start(Options::default()).unwrap();
    let access = access(&server, "sidecar");
    (server, access)
}

fn access(server: &Server, user: &str) -> ClusterConfig {
    let (certificate, key) = server.client_certificate(user, &[], Duration::from_secs(3600));
    ClusterConfig {
        server: server.url(),
        trust: Trust::Bundle(server.ca().certificate_pem.clone().into_bytes()),
        server_name: None,
        identity: Some(KeyPair {
            certificate: certificate.into_bytes(),
            key: key.into_bytes().into(),
        }),
        auth: Auth::None,
        proxy: None,
        namespace: None,
    }
}

fn client(access: ClusterConfig) -> Client {
    Client::new("the hub", access, Reload::Never, timing()).unwrap()
}

/// Two seconds for a request.
fn timing() -> Timeouts {
    Timeouts::with_request(Duration::from_secs(2))
}

fn lease(name: &str) -> Target<'_> {
    LEASES.object("default", name)
}

fn body(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "default", "name": name}, "spec": {"leaseDurationSeconds": 60},
    })
}
