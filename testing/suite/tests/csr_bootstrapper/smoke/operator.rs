//! The command line of OCM's klusterlet operator.

use std::{fs, os::unix::fs::PermissionsExt};

use rustls::{DEFAULT_VERSIONS, version::TLS12};
use suite::{dumper, eventually, https, ocm::AVAILABLE, spoke::SECRET};

use crate::operator::{files, spoke, start};

#[test]
fn operators_command_line_joins_and_writes_the_files() {
    let spoke = spoke("operator");
    let (agent, port) = start(&spoke, &["--tls-min-version=VersionTLS12"]);
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
}

#[test]
fn files_follow_the_secret_and_stay_on_a_restart() {
    let spoke = spoke("operator-files");
    let (mut agent, _) = start(&spoke, &["--disable-leader-election"]);
    agent.wait_for_code("/readyz", 200);
    let first = dumper::set(&files(&spoke));
    // Another certificate: with another key that only the Secret and the files have.
    spoke.delete_secret(SECRET);
    let second = eventually("the next certificate", || {
        spoke
            .credential()
            .filter(|data| data.get("tls.crt").is_some_and(|it| *it != first["tls.crt"]))
    });
    eventually("the files of the next one", || dumper::set(&files(&spoke)) == second);
    // A restart writes nothing that is there.
    let before = fs::read_link(files(&spoke).join("..data")).expect("a generation");
    agent.terminate();
    let (agent, _) = start(&spoke, &["--disable-leader-election"]);
    agent.wait_for_code("/readyz", 200);
    assert_eq!(fs::read_link(files(&spoke).join("..data")).expect("a generation"), before);
    assert_eq!(agent.count("wrote the files"), 0);
}
