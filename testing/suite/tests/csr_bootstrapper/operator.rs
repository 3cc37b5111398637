//! Under the klusterlet operator: the command line of its Deployment (ocm v1.2.0,
//! `manifests/klusterlet/management/klusterlet-registration-deployment.yaml`), with the paths of its volumes in a
//! temporary directory.

use std::{
    fs,
    net::TcpStream,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::Command,
};

use rustls::DEFAULT_VERSIONS;
use suite::{
    eventually, https,
    ocm::AVAILABLE,
    repository::root,
    sidecar::{Sidecar, VERBOSE, bare, free_port, program},
    spoke::Spoke,
    within,
};

/// The agent, and its port for HTTPS: the container's program and arguments, where `/spoke` is `volumes` and 8443 is
/// that port.
pub(crate) fn start(spoke: &Spoke, more: &[&str]) -> (Sidecar, u16) {
    let volumes = volumes(spoke);
    let (port, https) = (free_port(), free_port());
    let registration = volumes.join("registration");
    if !registration.exists() {
        symlink(program("csr-bootstrapper"), &registration).expect("the link at the image's root");
    }
    let mut command = bare(&registration);
    command.args(["agent", &format!("--spoke-cluster-name={}", spoke.cluster)]);
    command.arg(format!("--bootstrap-kubeconfig={}/bootstrap/kubeconfig", volumes.display()));
    command.args(["--feature-gates=AddonManagement=true", "--client-cert-expiration-seconds=3600"]);
    command.args(["--kube-api-qps=50", "--kube-api-burst=100"]);
    command.args(["--addon-kubeclient-registration-auth=csr"]);
    // What the image has by default, and a pod: its volume, its service account.
    command.arg(format!("--hub-kubeconfig-dir={}", files(spoke).display()));
    command.arg(format!("--kubeconfig={}", spoke.managed_kubeconfig().display()));
    command.arg(format!("--namespace={}", spoke.namespace));
    command.arg(format!("--listen=127.0.0.1:{https}"));
    command.args(["--metrics-port", &port.to_string()]).args(VERBOSE).args(more);
    (Sidecar::spawn(command, port), https)
}

fn volumes(spoke: &Spoke) -> PathBuf {
    spoke.directory.path().to_owned()
}

pub(crate) fn files(spoke: &Spoke) -> PathBuf {
    volumes(spoke).join("hub-kubeconfig")
}

/// A spoke with the volumes of the Deployment: the bootstrap Secret's, and an empty one for the credential.
pub(crate) fn spoke(name: &str) -> Spoke {
    let spoke = Spoke::auto(name);
    fs::create_dir(volumes(&spoke).join("bootstrap")).expect("a volume");
    fs::create_dir(files(&spoke)).expect("a volume");
    // As an emptyDir.
    fs::set_permissions(files(&spoke), fs::Permissions::from_mode(0o777)).expect("its mode");
    spoke.write("bootstrap/kubeconfig", &spoke.bootstrap_kubeconfig());
    spoke
}

/// A spoke whose agent never gets an answer.
pub(crate) fn alone(name: &str) -> Spoke {
    let spoke = spoke(name);
    spoke.managed_relay.set(suite::relay::Way::Closed);
    spoke.hub_relay.set(suite::relay::Way::Closed);
    spoke
}

#[track_caller]
pub(crate) fn healthy(port: u16) {
    eventually("the port is served", || TcpStream::connect(("127.0.0.1", port)).ok());
    assert_eq!(https::get(port, "/healthz", DEFAULT_VERSIONS).expect("an answer").0, 200);
}

#[test]
fn files_that_cannot_be_written_leave_the_cluster_available() {
    let spoke = spoke("operator-full");
    fs::remove_dir(files(&spoke)).expect("the volume");
    fs::write(files(&spoke), "in the way").expect("a file");
    let (agent, _) = start(&spoke, &["--disable-leader-election"]);
    agent.wait_for("the files are not written");
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    assert_eq!(agent.ask("/healthz").0, 200);
    agent.wait_for_code("/readyz", 503);
    fs::remove_file(files(&spoke)).expect("the way is free");
    within(60, "the files", || agent.ask("/readyz").0 == 200);
}

#[test]
fn the_images_answer_to_registration() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    for (place, name) in [("dist", "csr-bootstrapper"), ("notices", "LICENSE")] {
        fs::create_dir(path(place)).expect("a directory");
        fs::write(path(place).join(name), name).expect("a file");
    }
    let script = root().join(".ci/release/roots.sh");
    let mut command = Command::new(script);
    command.args([path("roots"), path("dist"), path("notices")]).arg("csr-bootstrapper");
    assert!(command.status().expect("the script runs").success());
    for image in ["all", "csr-bootstrapper"] {
        let link = path("roots").join(image).join("registration");
        // Relative, so that it is the same link in the image.
        assert!(fs::read_link(&link).expect("a link").is_relative());
        assert_eq!(fs::read_to_string(link).expect("the program"), "csr-bootstrapper");
    }
}
