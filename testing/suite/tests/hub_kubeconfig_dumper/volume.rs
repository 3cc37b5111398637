//! Volumes that cannot be written: full, or mounted read-only. The dumper runs in its own mount namespace; the tests
//! are skipped if the kernel refuses one to this user.

use std::{fs, path::PathBuf};

use suite::{
    dumper::{Stage, set},
    identity::Data,
    needs::{Need, needs},
    sidecar::{Sidecar, bare, free_port, program},
};

/// Starts the dumper behind `mount`, a shell command in which `$DIR` is the directory.
fn start_on(stage: &Stage, mount: &str) -> Option<(Sidecar, PathBuf)> {
    if !needs(Need::Command(&["unshare", "-rm", "true"]), "no mount namespaces for this user") {
        return None;
    }
    fs::create_dir_all(stage.path()).expect("the directory");
    let port = free_port();
    let mut command = bare("unshare".as_ref());
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    command.args(["-rm", "sh", "-c", &script]).arg(program("hub-kubeconfig-dumper"));
    command.env("DIR", stage.path());
    stage.arguments(&mut command, port);
    let sidecar = Sidecar::spawn(command, port);
    sidecar.wait_for("starts");
    // As the process sees it.
    let path = stage.path();
    let inside = format!("/proc/{}/root{}", sidecar.pid(), path.display());
    Some((sidecar, inside.into()))
}

fn with_ballast(mut data: Data, size: usize) -> Data {
    // Nothing that others print: the outputs are searched for it.
    data.insert("ballast".into(), b"ballast, ".iter().copied().cycle().take(size).collect());
    data
}

#[test]
fn full_disk_leaves_the_old_set_and_is_logged_once() {
    let (stage, data) = Stage::with_secret("full");
    let mount = "mount -t tmpfs -o size=128k none \"$DIR\"";
    let Some((sidecar, inside)) = start_on(&stage, mount) else { return };
    sidecar.wait_for_code("/readyz", 200);
    stage.put_secret(&with_ballast(stage.credentials(), 200_000));
    sidecar.wait_for("keeps the files that it has: No space left on device");
    let reason = sidecar.wait_for_code("/readyz", 503);
    assert!(reason.contains("No space left"), "{reason}");
    sidecar.wait_for_times("No space left on device", 3);
    assert_eq!(set(&inside), data);
    let warned =
        sidecar.log().lines().filter(|l| l.starts_with('W') && l.contains("No space")).count();
    assert_eq!(warned, 1, "{}", sidecar.log());
    // There is room again: what was half written did not stay.
    let data = with_ballast(stage.credentials(), 20_000);
    stage.put_secret(&data);
    sidecar.wait_for_code("/readyz", 200);
    assert_eq!(set(&inside), data);
}
