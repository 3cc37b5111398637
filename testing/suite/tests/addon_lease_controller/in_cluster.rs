//! Startup as in a pod: the files of the service account instead of a kubeconfig.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use suite::{
    identity,
    needs::{Need, needs},
    scene::{ADDON, POD, SECRET, Scene},
    sidecar::{Sidecar, VERBOSE, bare, free_port, program},
};

use crate::support::{failures, renews};

/// Makes `$0` the service account's directory, for the rest of the command only.
const SCRIPT: &str = "mount -t tmpfs tmpfs /var/run && \
    mkdir -p /var/run/secrets/kubernetes.io/serviceaccount && \
    mount --bind \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";

/// A mount namespace of its own, as root or else as a user who is root in it; `None` where neither may be.
fn unshare(account: &Path) -> Option<Command> {
    let command = |flags: &str| {
        let mut command = bare(Path::new("/usr/bin/unshare"));
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.args([flags, "--propagation", "private", "sh", "-c", SCRIPT]).arg(account);
        command
    };
    let works = |flags: &&&str| {
        let mut command = command(flags);
        let status = command.arg("true").stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let flags = ["-m", "-rm"].iter().find(works)?;
    Some(command(flags))
}

/// The service account's files, as kubelet mounts them.
fn account(scene: &Scene) -> std::path::PathBuf {
    let directory = scene.directory.path().join("serviceaccount");
    fs::create_dir(&directory).expect("a directory");
    let token = identity::token(&scene.managed, &scene.namespace, ADDON);
    for (name, text) in
        [("token", &token), ("ca.crt", &scene.managed.ca), ("namespace", &scene.namespace)]
    {
        fs::write(directory.join(name), text).expect("a file");
    }
    directory
}

fn start(scene: &Scene, change: impl FnOnce(&mut Command)) -> Option<Sidecar> {
    let command = unshare(&account(scene));
    if !needs(Need::Found(command.is_some()), "unshare may not make a mount namespace here") {
        return None;
    }
    let mut command = command?;
    let port = free_port();
    let address = scene.managed_relay.address;
    command
        .arg(program("addon-lease-controller"))
        .args(["-lease-name", ADDON, "-lease-namespace", &scene.cluster])
        .args(["-hub-kubeconfig-secret", SECRET, "-lease-duration=1", "-startup-delay=0"])
        .args(["-metrics-port", &port.to_string()])
        .args(VERBOSE)
        .env("KUBERNETES_SERVICE_HOST", address.ip().to_string())
        .env("KUBERNETES_SERVICE_PORT", address.port().to_string());
    change(&mut command);
    Some(Sidecar::spawn(command, port))
}

#[test]
fn pod_environment_names_pod_and_namespace() {
    let scene = Scene::new("inclusterpod");
    scene.set_ready(false);
    let sidecar = start(&scene, |command| {
        command.args(["-lease-target=both", "-leader-election"]);
        command.env("POD_NAME", POD).env("POD_NAMESPACE", &scene.namespace);
    });
    let Some(sidecar) = sidecar else { return };
    sidecar.wait_for("reason=\"it is not Ready\"");
    scene.set_ready(true);
    renews(&sidecar, "hub", 1);
    renews(&sidecar, "managed", 1);
}

#[test]
fn replaced_service_account_token_is_read_again() {
    if !needs(Need::Embedded, "a token cannot be revoked at will") {
        return;
    }
    let scene = Scene::new("inclustertoken");
    let Some(sidecar) = start(&scene, |command| {
        command.arg("-lease-target=managed");
    }) else {
        return;
    };
    renews(&sidecar, "managed", 1);
    let file = scene.directory.path().join("serviceaccount/token");
    let old = fs::read_to_string(&file).expect("the token");
    fs::write(&file, identity::token(&scene.managed, &scene.namespace, ADDON)).expect("a token");
    scene.managed.server().revoke(&old);
    renews(&sidecar, "managed", 2);
    assert_eq!(failures(&sidecar, "managed"), 0.0, "{}", sidecar.log());
}
