//! The process: command line, signals, endpoint, image and manifests.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use suite::{
    scene::{ADDON, Scene, manifests},
    sidecar::{Sidecar, bare, program},
};

fn refused(flags: &[&str]) -> String {
    let mut command = bare(&program("addon-lease-controller"));
    command.args(flags);
    let mut sidecar = Sidecar::spawn(command, 0);
    assert_eq!(sidecar.wait().code(), Some(2), "{flags:?}: {}", sidecar.log());
    sidecar.log()
}

#[test]
fn a12_a_hub_without_credentials_is_refused_at_the_start() {
    let log = refused(&["-lease-name", "x", "-lease-namespace", "y", "-lease-target", "hub"]);
    assert!(log.starts_with("-hub-kubeconfig-secret or -hub-kubeconfig is required"), "{log}");
    assert_eq!(log.lines().last(), Some("Run 'addon-lease-controller -help' for usage."), "{log}");
}

#[test]
fn a16_namespace_and_name_are_in_their_order() {
    let scene = Scene::new("a16");
    let sidecar = scene.start(&[]);
    sidecar.wait_for(&format!("Lease {}/{ADDON} on the hub is renewed every 1 s", scene.cluster));
    sidecar.wait_for(&format!("pod {}/my-addon-0 is ready", scene.namespace));
}

#[test]
fn a17_sigterm_ends_the_startup_delay() {
    let scene = Scene::new("a17");
    let mut sidecar = scene.start(&["-startup-delay", "3600"]);
    sidecar.wait_for_code("/healthz", 200);
    sidecar.ends_at_once();
}

#[test]
fn a19_a_duration_that_is_none_is_refused() {
    for duration in ["0", "-1", "2147483648"] {
        let log = refused(&[
            "-lease-name",
            "x",
            "-lease-target",
            "managed",
            "-namespace",
            "y",
            "-lease-duration",
            duration,
        ]);
        assert!(
            log.starts_with("-lease-duration is a number of seconds from 1 to 2147483647"),
            "{log}"
        );
    }
}

#[test]
fn a21_the_manifests_grant_nothing_wide() {
    let all: Vec<_> = manifests("managed").into_iter().chain(manifests("hub")).collect();
    assert!(all.len() >= 4, "{all:?}");
    let mut granted = BTreeSet::new();
    for object in all {
        let kind = object["kind"].as_str().unwrap_or_default();
        assert!(!kind.starts_with("Cluster"), "{object}");
        assert_ne!(object["roleRef"]["kind"], "ClusterRole", "{object}");
        granted.extend(object["rules"].as_array().into_iter().flatten().flat_map(grants));
    }
    let expected = [
        "coordination.k8s.io leases create",
        "coordination.k8s.io leases get named",
        "coordination.k8s.io leases update named",
        "core pods list",
        "core pods watch",
        "core secrets get named",
        "core secrets list named",
        "core secrets watch named",
    ];
    assert_eq!(granted, expected.map(str::to_owned).into());
}

/// Each right of a rule alone, and whether it is for objects by their names.
fn grants(rule: &Value) -> Vec<String> {
    let all = |field: &str| -> Vec<&str> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let named = if all("resourceNames").is_empty() { "" } else { " named" };
    let mut rights = Vec::new();
    for group in all("apiGroups") {
        let group = if group.is_empty() { "core" } else { group };
        for resource in all("resources") {
            for verb in all("verbs") {
                rights.push(format!("{group} {resource} {verb}{named}"));
            }
        }
    }
    rights
}

#[test]
fn a22_the_endpoint_serves_health_readiness_and_metrics() {
    let scene = Scene::new("a22");
    let sidecar = scene.start(&[]);
    sidecar.wait_for_code("/readyz", 200);
    assert_eq!(sidecar.ask("/healthz").0, 200);
    assert!(
        sidecar.metric("sidecar_lease_renewals_total{target=\"hub\",result=\"success\"}")
            >= Some(1.0)
    );
}

#[test]
fn a24_an_argument_with_blanks_arrives_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("hub config");
    let mut command = bare(&program("addon-lease-controller"));
    command.args([
        "-lease-name",
        "x",
        "-lease-namespace",
        "y",
        "-metrics-port",
        "0",
        "-startup-delay",
        "0",
    ]);
    command.arg("-hub-kubeconfig").arg(&path);
    let sidecar = Sidecar::spawn(command, 0);
    sidecar.wait_for(&format!("kubeconfig {} does not exist", path.display()));
    // The image starts the program itself: there is no shell in between.
    let dockerfile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Dockerfile");
    let dockerfile = std::fs::read_to_string(dockerfile).expect("the Dockerfile");
    let entry =
        dockerfile.lines().find(|line| line.starts_with("ENTRYPOINT")).expect("an ENTRYPOINT");
    assert!(entry.contains('['), "{entry}");
}
