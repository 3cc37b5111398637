//! Under the klusterlet operator: the command line of its Deployment (ocm v1.2.0,
//! `manifests/klusterlet/management/klusterlet-registration-deployment.yaml`), with the paths of its volumes in a
//! temporary directory.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use suite::{
    dumper, eventually,
    ocm::AVAILABLE,
    sidecar::{Sidecar, bare, free_port, program},
    spoke::{SECRET, Spoke},
    within,
};

/// The container's program and arguments, where `/spoke` is `volumes`.
fn start(spoke: &Spoke, more: &[&str]) -> Sidecar {
    let volumes = volumes(spoke);
    let port = free_port();
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
    command.args(["--metrics-port", &port.to_string(), "-v=2"]).args(more);
    Sidecar::spawn(command, port)
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

#[test]
fn the_operators_command_line_joins_leads_and_writes_the_files() {
    let spoke = spoke("operator");
    let agent = start(&spoke, &[]);
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
}

#[test]
fn the_files_follow_the_secret_and_outlive_it() {
    let spoke = spoke("operator-files");
    let mut agent = start(&spoke, &["--disable-leader-election"]);
    agent.wait_for_code("/readyz", 200);
    let first = dumper::set(&files(&spoke));
    // Another certificate: with another key that only the Secret and the files have.
    spoke.delete_secret(SECRET);
    let second = eventually("the next certificate", || {
        spoke
            .credential()
            .filter(|data| data.get("tls.crt").is_some_and(|it| *it != first["tls.crt"]))
    });
    eventually("the files of the next one", || {
        (dumper::set(&files(&spoke)) == second).then_some(())
    });
    // A restart writes nothing that is there.
    let before = fs::read_link(files(&spoke).join("..data")).expect("a generation");
    agent.terminate();
    let agent = start(&spoke, &["--disable-leader-election"]);
    agent.wait_for_code("/readyz", 200);
    assert_eq!(fs::read_link(files(&spoke).join("..data")).expect("a generation"), before);
    assert_eq!(agent.count("wrote the files"), 0);
}

#[test]
fn files_that_cannot_be_written_leave_the_cluster_available() {
    let spoke = spoke("operator-full");
    fs::remove_dir(files(&spoke)).expect("the volume");
    fs::write(files(&spoke), "in the way").expect("a file");
    let agent = start(&spoke, &["--disable-leader-election"]);
    agent.wait_for("the files are not written");
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    assert_eq!(agent.ask("/healthz").0, 200);
    agent.wait_for_code("/readyz", 503);
    fs::remove_file(files(&spoke)).expect("the way is free");
    within(60, "the files", || (agent.ask("/readyz").0 == 200).then_some(()));
}

#[test]
fn the_images_answer_to_registration() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    for (place, name) in [("dist", "csr-bootstrapper"), ("notices", "LICENSE")] {
        fs::create_dir(path(place)).expect("a directory");
        fs::write(path(place).join(name), name).expect("a file");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/release/roots.sh");
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
