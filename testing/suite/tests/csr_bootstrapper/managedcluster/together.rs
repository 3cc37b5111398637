//! The three programs of a spoke together: the dumper writes the Secret to files, and the lease sidecar uses it
//! as it is.

use std::{fs, path::PathBuf};

use suite::{
    eventually,
    ocm::AVAILABLE,
    sidecar::{Sidecar, VERBOSE, bare, free_port, program},
    spoke::{SECRET, Spoke},
    throughout,
};

use crate::support::joined;

fn directory(spoke: &Spoke) -> PathBuf {
    spoke.directory.path().join("hub-kubeconfig")
}

/// The dumper with the bootstrapper's own rights, as in manifests/csr-bootstrapper/agent.yaml.
fn start_dumper(spoke: &Spoke) -> Sidecar {
    let port = free_port();
    let mut command = bare(&program("hub-kubeconfig-dumper"));
    command.arg("-kubeconfig").arg(spoke.directory.path().join("managed.kubeconfig"));
    command.arg("-hub-kubeconfig-dir").arg(directory(spoke));
    command.args(["-metrics-port", &port.to_string()]).args(VERBOSE);
    command.env("POD_NAMESPACE", &spoke.namespace);
    Sidecar::spawn(command, port)
}

#[test]
fn with_the_dumper_ready_is_what_has_arrived_in_the_files() {
    let spoke = Spoke::auto("dumped");
    let path = directory(&spoke);
    fs::create_dir(&path).expect("the volume");
    let agent = spoke.start(&["-hub-kubeconfig-dir", path.to_str().expect("a path")]);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    let body = agent.wait_for_code("/readyz", 503);
    assert!(body.contains(path.to_str().expect("a path")), "{body}");
    throughout(500, "nobody wrote the files", || agent.ask("/readyz").0 == 503);

    let dumper = start_dumper(&spoke);
    dumper.wait_for_code("/readyz", 200);
    agent.wait_for_code("/readyz", 200);
    let files: suite::identity::Data = fs::read_dir(&path)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| !name.starts_with(".."))
        .map(|name| (name.clone(), fs::read(path.join(&name)).expect("a file")))
        .collect();
    assert!(files == spoke.credential().expect("the Secret"), "{:?}", files.keys());

    // What vanishes from the files is not ready any more.
    drop(dumper);
    for entry in fs::read_dir(&path).expect("the directory").flatten() {
        let path = entry.path();
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
    agent.wait_for_code("/readyz", 503);
    let _dumper = start_dumper(&spoke);
    agent.wait_for_code("/readyz", 200);
}

#[test]
fn the_names_in_the_files_count_where_the_secret_is_new() {
    let (spoke, mut agent) = joined("known", &[]);
    let path = directory(&spoke);
    fs::create_dir(&path).expect("the volume");
    start_dumper(&spoke).wait_for_code("/readyz", 200);
    agent.terminate();
    spoke.delete_secret(SECRET);
    // Without the flags, the cluster is the one that the files name, not a random one.
    let port = free_port();
    let mut command = bare(&program("csr-bootstrapper"));
    command.arg("-kubeconfig").arg(spoke.managed_kubeconfig());
    command.arg("-disable-leader-election").args(VERBOSE);
    command.args(["-metrics-port", &port.to_string()]).env("POD_NAMESPACE", &spoke.namespace);
    command.arg("-hub-kubeconfig-dir").arg(&path);
    let agent = Sidecar::spawn(command, port);
    agent.wait_for(&format!("names are known cluster={}", spoke.cluster));
    spoke.wait_for_certificate();
}

#[test]
fn the_lease_sidecar_uses_the_very_secret() {
    let (spoke, _agent) = joined("leased", &[]);
    // On the hub an add-on's Lease is another matter; here it keeps the cluster's namespace busy.
    let port = free_port();
    let mut command = bare(&program("addon-lease-controller"));
    command.arg("-kubeconfig").arg(&spoke.managed.kubeconfig);
    command.args(["-hub-kubeconfig-secret", &spoke.secret, "-lease-name", "managed-cluster-lease"]);
    command.args(["-lease-namespace", &spoke.cluster, "-lease-duration", "1"]);
    command.args(["-startup-delay", "0"]).args(VERBOSE);
    command.args(["-metrics-port", &port.to_string()]).env("POD_NAMESPACE", &spoke.namespace);
    let sidecar = Sidecar::spawn(command, port);
    sidecar.wait_for("lease renewal started");
    let renewals = || {
        let sample = "sidecar_lease_renewals_total{target=\"hub\",result=\"success\"}";
        sidecar.metric(sample).unwrap_or_default()
    };
    eventually("it renews with the credential", || (renewals() >= 3.0).then_some(()));
    // The agent's own heartbeat is due once a minute, so this is the sidecar's.
    let before = crate::support::renewed(&spoke);
    eventually("it is renewed", || crate::support::renewed(&spoke) != before);
}
