//! The files follow the Secret as one set, and never become worse than they were.

use std::{fs, os::unix::fs::MetadataExt};

use suite::{
    dumper::{Stage, set},
    eventually,
    relay::Way,
    throughout,
};

// DumpSecret of OCM's spoke/registration/secret_controller_test.go.
#[test]
fn secret_that_is_created_and_updated_becomes_files() {
    let stage = Stage::new("dump-created");
    let sidecar = stage.start(&[]);
    let reason = sidecar.wait_for_code("/readyz", 503);
    assert!(reason.contains("hub-kubeconfig-secret: it"), "{reason}");
    sidecar.wait_for("it does not exist");
    assert!(!stage.path().exists(), "the directory is not made");
    assert_eq!(sidecar.ask("/healthz").0, 200);
    let data = stage.credentials();
    stage.put_secret(&data);
    sidecar.wait_for_code("/readyz", 200);
    stage.shows(&data);
    let expires = sidecar.metric("sidecar_certificate_expiration_timestamp_seconds");
    assert!(expires > Some(0.0), "{expires:?}");
    assert!(sidecar.metric("sidecar_last_success_timestamp_seconds") > Some(0.0));
    assert_eq!(sidecar.metric("certwatcher_read_certificate_errors_total"), Some(0.0));
    for _ in 0..3 {
        let data = stage.credentials();
        stage.put_secret(&data);
        eventually("the files follow", || set(&stage.path()) == data);
    }
}

#[test]
fn unusable_secret_changes_no_file_and_turns_readiness() {
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
        eventually(reason, || sidecar.ask("/readyz").1.contains(reason));
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

/// An outage removes no file either.
#[test]
fn deleted_secret_takes_no_file_with_it() {
    let (stage, data) = Stage::with_secret("deleted");
    let sidecar = stage.start_ready(&[]);
    stage.delete_secret();
    sidecar.wait_for_code("/readyz", 503);
    stage.shows(&data);
    let data = stage.credentials();
    stage.put_secret(&data);
    sidecar.wait_for_code("/readyz", 200);
    stage.relay.set(Way::Closed);
    throughout(1500, "alive and ready", || {
        sidecar.ask("/healthz").0 == 200 && sidecar.ask("/readyz").0 == 200
    });
    stage.shows(&data);
    let data = stage.credentials();
    stage.put_secret(&data);
    stage.relay.set(Way::Open);
    eventually("the files follow", || set(&stage.path()) == data);
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
