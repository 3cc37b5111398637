//! No credential is logged, nor shown by the endpoint.

use suite::dumper::Stage;

#[test]
fn credentials_never_reach_the_log_or_the_endpoint() {
    let (stage, good) = Stage::with_secret("secrecy");
    let mut sidecar = stage.start_ready(&["-flattened-kubeconfig", "hub.kubeconfig"]);
    // What a parser might quote: another pair's key, PEM where YAML belongs, a token.
    let mut mixed = good.clone();
    mixed.insert("tls.key".into(), stage.credentials()["tls.key"].clone());
    let mut pasted = good.clone();
    pasted.insert("kubeconfig".into(), good["tls.key"].clone());
    let mut token = good.clone();
    token.insert(
        "kubeconfig".into(),
        b"users: [{name: u, user: {token: [hunter2-hunter2]}}".to_vec(),
    );
    for data in [&mixed, &pasted, &token] {
        stage.put_secret(data);
        sidecar.wait_for_code("/readyz", 503);
        stage.put_secret(&stage.credentials());
        sidecar.wait_for_code("/readyz", 200);
    }
    let shown = ["/healthz", "/readyz", "/metrics"].map(|path| sidecar.ask(path).1).concat();
    sidecar.terminate();
    let shown = shown + &sidecar.log();
    assert!(
        shown.contains("do not belong together") && shown.contains("wrote the files"),
        "{shown}"
    );
    assert!(!shown.contains("hunter2") && !shown.contains("BEGIN "), "{shown}");
    for data in [&good, &mixed] {
        let key = String::from_utf8(data["tls.key"].clone()).expect("PEM");
        for line in key.lines().filter(|line| line.len() >= 40) {
            assert!(!shown.contains(line), "{line} in\n{shown}");
        }
    }
}
