//! Rarer cases of the files; `smoke::files` has the usual ones.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    time::Instant,
};

use suite::{
    dumper::{Stage, hidden, set},
    eventually,
    needs::{Need, needs},
    sidecar::{Sidecar, bare, program},
};

#[test]
fn changes_in_a_row_are_combined() {
    let (stage, _) = Stage::with_secret("burst");
    let sidecar = stage.start_ready(&[]);
    let (mut last, start) = (stage.credentials(), Instant::now());
    for _ in 0..30 {
        last = stage.credentials();
        stage.put_secret(&last);
    }
    eventually("the last is there", || set(&stage.path()) == last);
    // At most one a second, and the one before.
    let most = start.elapsed().as_secs() + 3;
    assert!((hidden(&stage.path()).0 as u64) < most, "{}", sidecar.log());
}

#[test]
fn volume_root_of_another_user_is_used_unchanged() {
    const NOBODY: u32 = 65_532;
    let is_root = fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    if !needs(Need::Found(is_root), "only root can be somebody else") {
        return;
    }
    let (stage, data) = Stage::with_secret("root");
    let root = stage.directory.path();
    // Where the other user can get at it.
    let copy = root.join("hub-kubeconfig-dumper");
    fs::copy(program("hub-kubeconfig-dumper"), &copy).expect("a copy");
    fs::create_dir_all(stage.path()).expect("the directory");
    let permit = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    permit(root, 0o755).and_then(|()| permit(&stage.path(), 0o2777)).expect("permissions");
    let mut command = bare(&copy);
    stage.arguments(&mut command, 0);
    command.arg("-once").uid(NOBODY).gid(NOBODY);
    let mut sidecar = Sidecar::spawn(command, 0);
    assert_eq!(sidecar.wait().code(), Some(0), "{}", sidecar.log());
    stage.shows(&data);
    let about = fs::metadata(stage.path()).expect("it is there");
    assert_eq!((about.mode() & 0o7777, about.uid()), (0o2777, 0));
    let key = fs::metadata(stage.path().join("tls.key")).expect("it is there");
    // The group comes from the directory, as with an fsGroup.
    assert_eq!((key.mode() & 0o777, key.uid(), key.gid()), (0o600, NOBODY, 0));
}

#[test]
fn names_are_written_before_there_is_a_kubeconfig() {
    let stage = Stage::new("names");
    let names = [("cluster-name", "c1"), ("agent-name", "a1")];
    let names = names.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).into();
    stage.put_secret(&names);
    let sidecar = stage.start(&[]);
    eventually("the names are there", || stage.path().join("agent-name").exists());
    stage.shows(&names);
    assert_eq!(sidecar.ask("/readyz").0, 503);
    let data = stage.credentials();
    stage.put_secret(&data);
    sidecar.wait_for_code("/readyz", 200);
    stage.shows(&data);
}

#[test]
fn both_kubeconfigs_can_be_used_as_they_are() {
    let (stage, data) = Stage::with_secret("flattened");
    let _sidecar = stage.start_ready(&["-flattened-kubeconfig", "hub.kubeconfig"]);
    let whole = kubeconfig::from_file(&stage.path().join("hub.kubeconfig")).expect("a kubeconfig");
    let parts = kubeconfig::from_file(&stage.path().join("kubeconfig")).expect("a kubeconfig");
    assert!(whole == parts);
    assert_eq!(*whole.identity.expect("a pair").key, data["tls.key"]);
}
