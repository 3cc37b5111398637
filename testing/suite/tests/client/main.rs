//! The REST client of `shared` against the embedded server: what its libraries get wrong by themselves,
//! and what a Kubernetes client owes its server.

mod connections;
mod credentials;
mod proxies;
mod requests;
mod roots;
mod streams;
mod watches;

use std::time::Duration;

use dev_apiserver::{Options, Server};
use serde_json::{Value, json};
use shared::{
    access::{Access, Auth, Identity, Trust},
    client::{Client, Reload, Timing},
    resource::{LEASES, Target},
};

/// A server, and an access to it with a client certificate.
fn server() -> (Server, Access) {
    let server = Server::start(Options::default()).unwrap();
    let access = access(&server, "sidecar");
    (server, access)
}

fn access(server: &Server, user: &str) -> Access {
    let (certificate, key) = server.client_certificate(user, &[], Duration::from_secs(3600));
    Access {
        server: server.url(),
        trust: Trust::Bundle(server.ca().certificate_pem.clone().into_bytes()),
        server_name: None,
        identity: Some(Identity {
            certificate: certificate.into_bytes(),
            key: key.into_bytes().into(),
        }),
        auth: Auth::None,
        impersonate: Vec::new(),
        proxy: None,
        namespace: None,
    }
}

fn client(access: Access) -> Client {
    Client::new("the hub", access, Reload::Never, timing()).unwrap()
}

/// Two seconds for a request.
fn timing() -> Timing {
    Timing::with_request(Duration::from_secs(2))
}

fn lease(name: &str) -> Target<'_> {
    LEASES.object("default", name)
}

fn body(name: &str) -> Value {
    shared::lease::new("default", name, json!({"leaseDurationSeconds": 60}))
}
