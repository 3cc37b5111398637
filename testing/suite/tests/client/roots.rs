//! A kubeconfig without a CA: the roots of the system.

use std::{fs, process::Command};

use serde_json::json;
use suite::sidecar::{Sidecar, bare, program};

use crate::server;

fn sidecar(server: &dev_apiserver::Server, directory: &tempfile::TempDir) -> Command {
    let user = json!({"token": server.token("sidecar", &[])});
    let mut kubeconfig = suite::identity::kubeconfig(&server.address().to_string(), "", &user);
    kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"].take();
    let path = directory.path().join("kubeconfig");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    let mut command = bare(&program("addon-lease-controller"));
    command.arg("-kubeconfig").arg(path);
    command.args(["-lease-name", "x", "-namespace", "default"]);
    command.args(["-metrics-port", "0", "-startup-delay", "0"]);
    command
}

#[test]
fn ssl_cert_file_names_the_system_roots() {
    let (server, _) = server();
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle.pem");
    fs::write(&bundle, &server.ca().certificate_pem).unwrap();
    let mut command = sidecar(&server, &directory);
    command.env("SSL_CERT_FILE", &bundle);
    Sidecar::spawn(command, 0)
        .wait_for("lease renewal started kind=leases.coordination.k8s.io namespace=default name=x");
}

#[test]
fn missing_system_roots_are_refused_at_the_start() {
    let (server, _) = server();
    let directory = tempfile::tempdir().unwrap();
    let mut command = sidecar(&server, &directory);
    command.env("SSL_CERT_FILE", "/nowhere/bundle.pem");
    let mut sidecar = Sidecar::spawn(command, 0);
    assert_eq!(sidecar.wait().code(), Some(1));
    sidecar.wait_for("SSL_CERT_FILE /nowhere/bundle.pem cannot be read");
}
