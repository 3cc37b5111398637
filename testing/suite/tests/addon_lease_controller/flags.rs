//! What is started how: flags, exit codes, the delay, signals.

use std::{
    net::TcpListener,
    os::unix::fs::symlink,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use suite::{
    pause,
    scene::{ADDON, POD, SECRET, Scene},
    sidecar::{Sidecar, bare, free_port, program, usage_error},
};

use suite::within;

fn lease_controller() -> Command {
    bare(&program("addon-lease-controller"))
}

/// Runs it to its end: exit code, stdout, stderr.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = lease_controller();
    let output = command.args(arguments).stdout(Stdio::piped()).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn version_and_help_exit_0() {
    for flag in ["-version", "--version", "-version=true"] {
        let (code, stdout, stderr) = run(&[flag]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.starts_with("addon-lease-controller "), "{stdout}");
    }
    for flag in ["-help", "--help", "-h"] {
        let (code, stdout, _) = run(&[flag]);
        assert_eq!(code, Some(0));
        for upstream in [
            "metrics-host",
            "metrics-port",
            "lease-name",
            "lease-namespace",
            "hub-kubeconfig-secret",
            "lease-duration",
            "startup-delay",
            "leader-election",
            "kubeconfig",
            "master",
        ] {
            assert!(stdout.contains(&format!("  -{upstream}")), "{upstream}: {stdout}");
        }
    }
}

#[test]
fn flags_that_cannot_be_used_exit_2_with_a_sentence_and_the_usage() {
    let needed = ["-lease-name=x", "-lease-namespace=x", "-hub-kubeconfig=x"];
    for (arguments, sentence) in [
        (&[][..], "lease-name is required"),
        (&["-nope"], "flag provided but not defined: -nope"),
        (&["-lease-name="], "-lease-name is required"),
        (&["-lease-namespace="], "-lease-namespace is required"),
        (&["-lease-duration=0"], "-lease-duration is a number of seconds from 1"),
        (&["-lease-duration=-5"], "-lease-duration is a number of seconds from 1"),
        (&["-lease-duration=5s"], "invalid value \"5s\" for flag -lease-duration"),
        (&["-lease-duration=2147483648"], "-lease-duration is a number"),
        (&["-startup-delay=-1"], "-startup-delay is a number"),
        (&["-lease-target=everywhere"], "-lease-target is hub, managed or both"),
        (&["-hub-kubeconfig-secret=y"], "exclude each other"),
        (&["-hub-kubeconfig=", "-lease-target=hub"], "is required for a Lease on the hub"),
        (&["-metrics-port=http"], "invalid value \"http\" for flag -metrics-port"),
        (&["-logging-format=xml"], "-logging-format is text or json"),
        (&["-leader-election", "true"], "unexpected argument \"true\""),
        (&["-lease-name=Not/valid"], "is not a valid object name"),
        (&["-lease-name"], "flag needs an argument: -lease-name"),
    ] {
        let all = if arguments.is_empty() { Vec::new() } else { [&needed, arguments].concat() };
        let (code, _, stderr) = run(&all);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        if !all.is_empty() {
            assert!(stderr.contains(sentence), "{arguments:?}: {stderr}");
        }
        usage_error("addon-lease-controller", &stderr);
    }
}

#[test]
fn what_is_refused_at_start_exits_1_with_a_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = format!("-metrics-port={}", taken.local_addr().expect("its address").port());
    let needed = ["-lease-name=x", "-managed-lease-namespace=x", "-metrics-host=127.0.0.1"];
    let insecure = "-master=http://127.0.0.1:9";
    for (arguments, sentence) in [
        (["-kubeconfig=/nowhere", "-metrics-port=0"], "kubeconfig /nowhere does not exist"),
        (["-kubeconfig=/dev/null", "-metrics-port=0"], "has no configuration"),
        (["-kubeconfig=/proc/version", "-metrics-port=0"], "kubeconfig /proc/version"),
        (["-metrics-port=0", "-v=0"], "no configuration"),
        ([insecure, &port], "cannot be served: Address already in use"),
        ([insecure, "-metrics-host=192.0.2.1"], "192.0.2.1:8384 cannot be served"),
        ([insecure, "-metrics-host=no such host"], "neither an IP address nor localhost"),
    ] {
        let (code, _, stderr) = run(&[&needed[..], &arguments[..]].concat());
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        let last = stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with('E') && last.contains(sentence), "{arguments:?}: {stderr}");
    }
}

#[test]
fn signals_end_it_at_once_also_during_the_delay() {
    let scene = Scene::new("delay");
    for signal in ["TERM", "INT"] {
        let mut sidecar = scene.start(&["-startup-delay=600"]);
        sidecar.wait_for_code("/healthz", 200);
        assert_eq!(sidecar.ask("/readyz").0, 503);
        sidecar.ends_at_once_by(|sidecar| sidecar.signal(signal));
        assert_eq!(sidecar.count("stopped by a signal"), 1);
    }
    assert!(scene.lease().is_none());
}

#[test]
fn nothing_is_asked_before_the_delay_is_over() {
    let scene = Scene::new("quiet");
    let start = Instant::now();
    let sidecar = scene.start(&["-startup-delay=2"]);
    within(6, "the Lease is there", || scene.lease().is_some());
    assert!(start.elapsed() > Duration::from_secs(2));
    assert_eq!(sidecar.count("is not renewed"), 0);
}

#[test]
fn of_a_repeated_flag_the_last_counts() {
    let scene = Scene::new("repeated");
    let _sidecar = scene.start(&["-lease-duration", "600", "--lease-duration=1"]);
    scene.wait_for_renewals(2);
}

#[test]
fn metrics_port_0_listens_nowhere() {
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

/// `command` and `args` of upstream's `lease/manager/manager.yaml` and README, with its port: 8384 on all
/// addresses, so this is the only scenario that uses it.
#[test]
fn the_argv_of_the_shipped_manifest_runs_unchanged() {
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
    sidecar.wait_for("the Lease goes stale");
    scene.ages(5500);
    assert_eq!(sidecar.terminate().0, Some(0));
}

#[test]
fn json_lines_are_json() {
    let scene = Scene::new("json");
    let mut sidecar = scene.start(&["-logging-format=json"]);
    scene.wait_for_renewals(1);
    sidecar.terminate();
    for line in sidecar.log().lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(line["ts"].is_f64() && line["msg"].is_string(), "{line}");
    }
}

#[test]
fn two_at_once_need_two_ports() {
    let scene = Scene::new("twoports");
    let port = free_port();
    let first = Sidecar::spawn(scene.command(port), port);
    first.wait_for_code("/healthz", 200);
    let mut second = Sidecar::spawn(scene.command(port), 0);
    assert_eq!(second.wait().code(), Some(1));
    assert_eq!(second.count(&format!("metrics address :{port} cannot be served")), 1);
}

#[test]
fn the_files_of_kubeconfig_are_merged_and_master_wins() {
    let scene = Scene::new("merged");
    let whole = std::fs::read_to_string(scene.managed_kubeconfig()).expect("the file");
    let mut first: serde_json::Value = serde_json::from_str(&whole).expect("JSON");
    let mut second = first.clone();
    first["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9".into();
    for field in ["users", "contexts", "current-context"] {
        first.as_object_mut().expect("an object").remove(field);
    }
    second.as_object_mut().expect("an object").remove("clusters");
    let files = [("first", first), ("second", second)]
        .map(|(name, content)| scene.write(name, &content.to_string()).display().to_string());
    let mut command = lease_controller();
    command
        .env("KUBECONFIG", files.join(":"))
        .arg(format!("-master=https://{}", scene.managed_relay.address))
        .args(["-lease-name", ADDON, "-managed-lease-namespace", &scene.namespace])
        .args(["-lease-duration=1", "-startup-delay=0", "-metrics-port=0"]);
    let _sidecar = Sidecar::spawn(command, 0);
    within(5, "the Lease is there", || scene.managed_lease().is_some());
}
