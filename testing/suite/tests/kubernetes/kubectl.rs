//! kubectl compared: our programs accept the kubeconfigs that it accepts and reject those that it rejects,
//! against the real server. Differences on purpose are in the table.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use suite::{
    needs::{Need, needs},
    pause,
    scene::{ADDON, Scene},
    sidecar::{Sidecar, bare, program},
};

use crate::kubeconfigs::{
    Fate::{self, Answered, Refused, Unreachable},
    Parts, table,
};

fn kubectl(file: &Path, home: &Path) -> (Fate, String) {
    let assets = std::env::var("E2E_ASSETS").expect("testing/controlplane/run.sh sets E2E_ASSETS");
    let mut command = bare(&PathBuf::from(assets).join("kubectl"));
    command.env("HOME", home).arg("--kubeconfig").arg(file);
    let output =
        command.args(["get", "--raw", "/version", "--request-timeout=5s"]).stderr(Stdio::piped());
    let output = output.output().expect("kubectl starts");
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let fate = if output.status.success()
        || says(&["Error from server", "logged in", "HTTP request to an HTTPS"])
    {
        Answered
    } else if says(&["unsupported protocol scheme"]) {
        Refused
    } else if says(&["Unable to connect", "was refused"]) {
        Unreachable
    } else {
        Refused
    };
    (fate, text)
}

fn ours(file: &Path, namespace: &str) -> (Fate, String) {
    let mut command: Command = bare(&program("addon-lease-controller"));
    command
        .args([
            "-lease-target=managed",
            "-lease-name",
            ADDON,
            "-managed-lease-namespace",
            namespace,
        ])
        .args(["-startup-delay=0", "-metrics-port=0", "-kubeconfig"])
        .arg(file);
    let mut sidecar = Sidecar::spawn(command, 0);
    for _ in 0..500 {
        let log = sidecar.log();
        let answered = log.contains("lease renewal started")
            || [": 400", ": 401: ", ": 403: "].iter().any(|code| log.contains(code));
        if answered {
            return (Answered, log);
        } else if log.contains("lease renewal failed") {
            return (Unreachable, log);
        } else if !sidecar.alive() {
            assert_eq!(sidecar.wait().code(), Some(1), "{log}");
            return (Refused, sidecar.log());
        }
        pause(10);
    }
    panic!("neither started nor ended: {}", sidecar.log());
}

#[test]
fn kubeconfigs_are_read_as_kubectl_reads_them() {
    if !needs(Need::Real, "kubectl is there") {
        return;
    }
    // Whoever is not the service account gets a 403.
    let scene = Scene::new("revoked-kubectl");
    let parts = Parts::of(&scene);
    for (name, text) in [
        ("token", &parts.token),
        ("tls.crt", &parts.pair.0),
        ("tls.key", &parts.pair.1),
        ("ca.crt", &scene.managed.ca),
    ] {
        fs::write(scene.directory.path().join(name), text).expect("a file");
    }
    let rows = table(&parts);
    let mut wrong = Vec::new();
    for (name, text, theirs_expected, ours_expected) in &rows {
        let file = scene.directory.path().join("kubeconfig");
        fs::write(&file, text).expect("a file");
        let (theirs, their_words) = kubectl(&file, scene.directory.path());
        let (ours, our_words) = ours(&file, &scene.namespace);
        println!("{name}: kubectl {theirs:?}, we {ours:?}");
        if (theirs, ours) != (*theirs_expected, *ours_expected) {
            let last = our_words.lines().last().unwrap_or_default();
            wrong.push(format!(
                "{name}: kubectl {theirs:?} ({theirs_expected:?}), we {ours:?} ({ours_expected:?})\n  \
                 kubectl: {their_words}\n  we: {last}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
