//! Under the klusterlet operator: the command line of its Deployment (ocm v1.2.0,
//! `manifests/klusterlet/management/klusterlet-registration-deployment.yaml`), with the paths of its volumes in a
//! temporary directory; also clients of its endpoint that stall.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use rustls::{DEFAULT_VERSIONS, version::TLS12};
use suite::{
    dumper, eventually, https,
    ocm::AVAILABLE,
    relay::Way,
    sidecar::{Sidecar, VERBOSE, bare, free_port, program},
    spoke::{SECRET, Spoke},
    within,
};

use crate::support::{roles, wait_for_another};

/// The agent, and its port for HTTPS: the container's program and arguments, where `/spoke` is `volumes` and 8443 is
/// that port.
fn start(spoke: &Spoke, more: &[&str]) -> (Sidecar, u16) {
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

fn files(spoke: &Spoke) -> PathBuf {
    volumes(spoke).join("hub-kubeconfig")
}

/// A spoke with the volumes of the Deployment: the bootstrap Secret's, and an empty one for the credential.
fn spoke(name: &str) -> Spoke {
    let spoke = Spoke::auto(name);
    fs::create_dir(volumes(&spoke).join("bootstrap")).expect("a volume");
    fs::create_dir(files(&spoke)).expect("a volume");
    // As an emptyDir.
    fs::set_permissions(files(&spoke), fs::Permissions::from_mode(0o777)).expect("its mode");
    spoke.write("bootstrap/kubeconfig", &spoke.bootstrap_kubeconfig());
    spoke
}

#[track_caller]
fn healthy(port: u16) {
    eventually("the port is served", || TcpStream::connect(("127.0.0.1", port)).ok());
    assert_eq!(https::get(port, "/healthz", DEFAULT_VERSIONS).expect("an answer").0, 200);
}

#[test]
fn operators_command_line_joins_and_keeps_the_files() {
    let spoke = spoke("operator");
    let (mut agent, port) = start(&spoke, &["--tls-min-version=VersionTLS12"]);
    agent.wait_for("-kube-api-qps is ignored: requests are few");
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    let lock = "registration-agent-lock";
    eventually("a leader", || spoke.managed.leader(&spoke.namespace, lock));
    agent.wait_for_code("/readyz", 200);
    let secret = spoke.credential().expect("the Secret");
    assert_eq!(dumper::set(&files(&spoke)), secret);
    assert_eq!(secret["cluster-name"], spoke.cluster.as_bytes());
    let key = fs::metadata(files(&spoke).join("tls.key")).expect("the key");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(files(&spoke)).expect("it").permissions().mode() & 0o777, 0o777);
    // The probes of the Deployment, and what the plain port has too.
    for (path, part) in [
        ("/healthz", "ok"),
        ("/livez", "ok"),
        ("/readyz", "ok"),
        ("/metrics", "sidecar_build_info"),
    ] {
        let (code, body, _) = https::get(port, path, DEFAULT_VERSIONS).expect("an answer");
        assert!(code == 200 && body.contains(part), "{path}: {code} {body}");
    }
    assert!(https::get(port, "/healthz", &[&TLS12]).is_err(), "TLS 1.3 alone");

    // Another certificate: with another key that only the Secret and the files have.
    spoke.delete_secret(SECRET);
    let second = wait_for_another(&spoke, &secret);
    eventually("the files of the next one", || dumper::set(&files(&spoke)) == second);
    // The first one requested it, for a name that was generated.
    assert_eq!(roles(&spoke), ["another", "bootstrap"]);
    // A restart does not rewrite existing files.
    let before = fs::read_link(files(&spoke).join("..data")).expect("a generation");
    agent.terminate();
    let (agent, _) = start(&spoke, &["--disable-leader-election"]);
    agent.wait_for_code("/readyz", 200);
    assert_eq!(fs::read_link(files(&spoke).join("..data")).expect("a generation"), before);
    assert_eq!(agent.count("wrote the files"), 0);
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
fn stalled_tls_clients_keep_no_probe_waiting() {
    // Its agent never gets an answer.
    let spoke = spoke("operator-crowd");
    spoke.managed_relay.set(Way::Closed);
    spoke.hub_relay.set(Way::Closed);
    let (agent, port) = start(&spoke, &[]);
    healthy(port);
    let silent = || TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let half = || {
        let mut client = silent();
        // The first bytes of a ClientHello of 512 bytes.
        client.write_all(&[22, 3, 1, 2, 0, 1, 0]).expect("it is sent");
        client
    };
    let crowd: Vec<_> = (0..100).flat_map(|_| [silent(), half()]).collect();
    for _ in 0..5 {
        healthy(port);
        assert_eq!(agent.ask("/healthz").0, 200, "the plain port too");
    }
    drop(crowd);
    // Whoever does not speak TLS is sent away.
    let mut plain = silent();
    plain.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").expect("it is sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
