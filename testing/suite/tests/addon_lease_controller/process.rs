//! The process: startup as shipped, and without an endpoint.

use std::{os::unix::fs::symlink, thread, time::Duration};

use suite::{
    pause,
    scene::{ADDON, POD, SECRET, Scene},
    sidecar::{Sidecar, bare, program},
};

use crate::support::STALE;

/// `command` and `args` of upstream's `lease/manager/manager.yaml` and README, with its port: 8384 on all
/// addresses, so this is the only scenario that uses it.
#[test]
fn command_line_of_the_shipped_manifest_works_unchanged() {
    let scene = Scene::new("shipped");
    let name = scene.directory.path().join("klusterlet-addon-lease-controller");
    symlink(program("addon-lease-controller"), &name).expect("its name in the image");
    let kubeconfig = scene.managed_kubeconfig();
    let mut sidecar = loop {
        let mut command = bare(&name);
        command
            .args(["-lease-name", ADDON, "-lease-namespace", &scene.cluster])
            .args(["-hub-kubeconfig-secret", SECRET])
            .args(["-lease-duration", "5", "-startup-delay", "2"])
            .env("WATCH_NAMESPACE", "")
            .env("POD_NAME", POD)
            .env("POD_NAMESPACE", &scene.namespace)
            .env("KUBECONFIG", &kubeconfig);
        let mut sidecar = Sidecar::spawn(command, 8384);
        pause(300);
        if sidecar.alive() {
            break sidecar;
        }
        // Another run on this machine has the port.
        assert!(sidecar.log().contains(":8384 cannot be served"), "{}", sidecar.log());
        thread::sleep(Duration::from_secs(1));
    };
    scene.wait_for_renewals(2);
    let lease = scene.lease().expect("the Lease");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 5);
    assert!(sidecar.ask("/metrics").1.contains("sidecar_lease_renewals_total"));
    scene.set_ready(false);
    sidecar.wait_for(STALE);
    scene.ages(5500);
    assert_eq!(sidecar.terminate().0, Some(0));
}

#[test]
fn metrics_port_0_opens_no_listener() {
    let scene = Scene::new("noport");
    let sidecar = scene.start(&["-metrics-port=0"]);
    scene.wait_for_renewals(1);
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", sidecar.pid()))
        .expect("its descriptors")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    assert!(!sockets.is_empty(), "it has connections");
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let table = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for line in table.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ours = words.get(9).is_some_and(|inode| sockets.iter().any(|s| s == inode));
            assert!(!(ours && words[3] == "0A"), "it listens: {line}");
        }
    }
}
