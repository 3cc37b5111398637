//! The files follow the Secret. The first three are the rows of DumpSecret in the registration agent's own
//! test (spoke/registration/secret_controller_test.go).

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
};

use shared::kubeconfig::{self, Reach};
use suite::{
    dumper::{Stage, hidden, set},
    eventually,
    needs::{Need, needs},
    pause,
    relay::Way,
    sidecar::{Sidecar, bare, program},
    throughout, within,
};

#[test]
fn dump_secret_no_secret() {
    let stage = Stage::new("dump-none");
    let sidecar = stage.start(&[]);
    let reason = sidecar.wait_for_code("/readyz", 503);
    assert!(reason.contains("hub-kubeconfig-secret: it"), "{reason}");
    sidecar.wait_for("it does not exist");
    assert!(!stage.path().exists(), "the directory is not made");
    assert_eq!(sidecar.ask("/healthz").0, 200);
}

#[test]
fn dump_secret_secret_is_created() {
    let stage = Stage::new("dump-created");
    let sidecar = stage.start(&[]);
    sidecar.wait_for("it does not exist");
    let data = stage.credentials();
    stage.put_secret(&data);
    sidecar.wait_for_code("/readyz", 200);
    stage.shows(&data);
    let expires = sidecar.metric("sidecar_certificate_expiration_timestamp_seconds");
    assert!(expires > Some(0.0), "{expires:?}");
    assert!(sidecar.metric("sidecar_last_success_timestamp_seconds") > Some(0.0));
    assert_eq!(sidecar.metric("certwatcher_read_certificate_errors_total"), Some(0.0));
}

#[test]
fn dump_secret_secret_is_updated() {
    let (stage, _) = Stage::with_secret("dump-updated");
    let _sidecar = stage.start_ready(&[]);
    for _ in 0..3 {
        let data = stage.credentials();
        stage.put_secret(&data);
        within(3, "the files follow", || set(&stage.path()) == data);
    }
}

#[test]
fn changes_in_a_row_are_taken_together() {
    let (stage, _) = Stage::with_secret("burst");
    let sidecar = stage.start_ready(&[]);
    let mut last = stage.credentials();
    for _ in 0..30 {
        last = stage.credentials();
        stage.put_secret(&last);
    }
    eventually("the last is there", || (set(&stage.path()) == last).then_some(()));
    assert!(hidden(&stage.path()).0 < 10, "{}", sidecar.log());
}

#[test]
fn modes_are_narrow_by_default_and_as_asked_otherwise() {
    for (more, directory, file) in
        [(&[][..], 0o700, 0o600), (&["-dir-mode=0750", "-file-mode=0640"], 0o750, 0o640)]
    {
        let (stage, _) = Stage::with_secret("modes");
        let (code, log) = stage.once(more);
        assert_eq!(code, Some(0), "{log}");
        let mode = |path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!(mode(stage.path()), directory);
        for name in ["kubeconfig", "tls.key", "cluster-name"] {
            assert_eq!(mode(stage.path().join(name)), file, "{name}");
        }
    }
}

#[test]
fn a_volumes_root_that_belongs_to_another_is_used_as_it_is() {
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
fn two_dumpers_on_one_directory_do_no_harm() {
    let (stage, _) = Stage::with_secret("two");
    let sidecars = [stage.start_ready(&[]), stage.start_ready(&[])];
    for _ in 0..3 {
        let data = stage.credentials();
        stage.put_secret(&data);
        eventually("the files follow", || (set(&stage.path()) == data).then_some(()));
        pause(1200);
        stage.shows(&data);
    }
    for sidecar in sidecars {
        assert_eq!(sidecar.ask("/readyz").0, 200);
        assert!(!sidecar.log().lines().any(|line| line.starts_with('W')), "{}", sidecar.log());
    }
}

#[test]
fn keys_that_are_gone_go_and_foreign_files_stay() {
    let (stage, mut data) = Stage::with_secret("keys");
    fs::create_dir_all(stage.path()).expect("the directory");
    fs::write(stage.path().join("mine"), "foreign").expect("a file");
    let _sidecar = stage.start_ready(&[]);
    data.remove("agent-name");
    data.insert("other".into(), b"new".to_vec());
    stage.put_secret(&data);
    let mut expected = data.clone();
    expected.insert("mine".into(), b"foreign".to_vec());
    eventually("the keys follow", || (set(&stage.path()) == expected).then_some(()));
}

#[test]
fn plain_files_of_the_registration_agent_are_taken_over() {
    let (stage, data) = Stage::with_secret("takeover");
    fs::create_dir_all(stage.path()).expect("the directory");
    for (name, content) in stage.credentials() {
        fs::write(stage.path().join(name), content).expect("a file");
    }
    let _sidecar = stage.start_ready(&[]);
    stage.shows(&data);
    assert!(data.keys().all(|name| stage.path().join(name).is_symlink()));
}

#[test]
fn f53_a_planted_symlink_is_not_written_through() {
    let (stage, data) = Stage::with_secret("planted");
    let outside = stage.directory.path().join("outside");
    fs::write(&outside, "precious").expect("a file");
    fs::create_dir_all(stage.path()).expect("the directory");
    symlink(&outside, stage.path().join("tls.key")).expect("a symlink");
    assert_eq!(stage.once(&[]).0, Some(0));
    stage.shows(&data);
    assert_eq!(fs::read_to_string(outside).expect("it is there"), "precious");
}

#[test]
fn f52_what_cannot_be_used_changes_nothing_and_turns_readiness() {
    let (stage, good) = Stage::with_secret("unusable");
    let sidecar = stage.start_ready(&[]);
    let change = |name: &str, content: Option<&[u8]>| {
        let mut data = good.clone();
        data.remove(name);
        data.extend(content.map(|content| (name.to_owned(), content.to_vec())));
        data
    };
    let other_key = stage.credentials()["tls.key"].clone();
    for (data, reason) in [
        (change("tls.key", Some(&other_key)), "do not belong together"),
        (change("tls.key", None), "that cannot be read"),
        (change("tls.crt", Some(b"junk")), "holds no certificate"),
        (change("kubeconfig", Some(b"a: [")), "is not YAML"),
        (change("kubeconfig", None), "it has no kubeconfig"),
        (Default::default(), "it has no kubeconfig"),
    ] {
        stage.put_secret(&data);
        eventually(reason, || sidecar.ask("/readyz").1.contains(reason).then_some(()));
        stage.shows(&good);
    }
    assert_eq!(sidecar.ask("/healthz").0, 200);
    assert!(sidecar.metric("certwatcher_read_certificate_errors_total") >= Some(4.0));
    let again = stage.credentials();
    stage.put_secret(&again);
    sidecar.wait_for_code("/readyz", 200);
    stage.shows(&again);
    assert!(!sidecar.log().contains("PRIVATE"), "{}", sidecar.log());
}

#[test]
fn a_secret_that_is_deleted_takes_no_file_with_it() {
    let (stage, data) = Stage::with_secret("deleted");
    let sidecar = stage.start_ready(&[]);
    stage.delete_secret();
    sidecar.wait_for_code("/readyz", 503);
    stage.shows(&data);
    let data = stage.credentials();
    stage.put_secret(&data);
    sidecar.wait_for_code("/readyz", 200);
    stage.shows(&data);
}

#[test]
fn names_are_written_before_there_is_a_kubeconfig() {
    let stage = Stage::new("names");
    let names = [("cluster-name", "c1"), ("agent-name", "a1")];
    let names = names.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).into();
    stage.put_secret(&names);
    let sidecar = stage.start(&[]);
    eventually("the names are there", || stage.path().join("agent-name").exists().then_some(()));
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
    let whole = kubeconfig::from_file(&stage.path().join("hub.kubeconfig"), Reach::Beside)
        .expect("a kubeconfig");
    let parts = kubeconfig::from_file(&stage.path().join("kubeconfig"), Reach::Beside)
        .expect("a kubeconfig");
    assert!(whole == parts);
    assert_eq!(*whole.identity.expect("a pair").key, data["tls.key"]);
}

#[test]
fn while_the_server_is_away_the_files_stay_and_it_stays_ready() {
    let (stage, data) = Stage::with_secret("away");
    let sidecar = stage.start_ready(&[]);
    stage.relay.set(Way::Closed);
    throughout(1500, "alive and ready", || {
        sidecar.ask("/healthz").0 == 200 && sidecar.ask("/readyz").0 == 200
    });
    stage.shows(&data);
    let data = stage.credentials();
    stage.put_secret(&data);
    stage.relay.set(Way::Open);
    eventually("the files follow", || (set(&stage.path()) == data).then_some(()));
    pause(50);
}
