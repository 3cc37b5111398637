//! The process on its machine: no flag aborts it, and nothing of its memory reaches a disk.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::{Command, Stdio},
};

use suite::{
    manifest::Container,
    needs::{Need, needs},
    sidecar::Sidecar,
    within,
};

use crate::subjects::{Lease, Remote};

const PROGRAMS: [&str; 4] =
    ["addon-lease-controller", "csr-bootstrapper", "hub-kubeconfig-dumper", "remote-sync"];

/// Flags with a value of this kind, as `-help` has them.
fn flags(container: &Container, kind: &str) -> Vec<String> {
    let mut command = container.command(&[]);
    let output = command.arg("-help").stdout(Stdio::piped()).output().expect("it runs");
    let help = String::from_utf8(output.stdout).expect("text");
    let lines = help.lines().filter_map(|line| line.trim().strip_suffix(kind));
    lines.map(|line| line.trim().to_owned()).filter(|line| line.starts_with('-')).collect()
}

/// The longest that can be said, and a bit more.
#[test]
fn extreme_numbers_in_flags_never_abort() {
    let durations = ["2562047h47m16.854775807s", "2562047h47m16.854775808s", "-2562047h", "1ns"];
    let numbers = ["9223372036854775807", "18446744073709551616", "-9223372036854775808", "0"];
    let mut asked = 0;
    for program in PROGRAMS {
        let container = Container::of(program);
        for (kind, values) in [(" duration", durations), (" int", numbers)] {
            for (flag, value) in flags(&container, kind)
                .iter()
                .flat_map(|flag| values.map(|value| (flag.clone(), value)))
            {
                // Without a kubeconfig, it exits after it has read its flags.
                let mut command = container.command(&[]);
                command.arg(format!("{flag}={value}")).arg("-kubeconfig=/nonexistent");
                let output = command.stdin(Stdio::null()).output().expect("it runs");
                let code = output.status.code();
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(matches!(code, Some(1 | 2)), "{program} {flag}={value}: {code:?} {text}");
                assert!(!text.contains("panicked"), "{program} {flag}={value}: {text}");
                asked += 1;
            }
        }
    }
    assert!(asked > 80, "{asked}");
}

/// Those that are refused are, and with the others it works.
#[test]
fn longest_durations_are_refused_or_work() {
    let remote = Remote::new("longest");
    let all = flags(&remote.container, " duration");
    let values = ["2562047h47m16s", "2777777777777777h"];
    for (flag, value) in all.iter().flat_map(|flag| values.map(|value| (flag, value))) {
        let mut sidecar = remote.start_with(&[&format!("{flag}={value}")]);
        let name = flag.trim_start_matches('-').to_owned();
        within(20, flag, || !sidecar.alive() || sidecar.ask("/readyz").0 == 200);
        if sidecar.alive() {
            remote.copies(&sidecar, &format!("{name}-{}", value.len()));
        } else {
            assert_eq!(sidecar.wait().code(), Some(2), "{flag}: {}", sidecar.log());
        }
    }
}

/// A core has the keys in it.
#[test]
fn crash_leaves_no_core() {
    let lease = Lease::new("core");
    let sidecar = lease.start();
    sidecar.wait_for(" starts ");
    let limits = fs::read_to_string(format!("/proc/{}/limits", sidecar.pid())).expect("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    let words: Vec<_> = core.expect("a line").split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{core:?}");
}

/// Nor may another process of the same user read its memory, such as one of the next container's where they
/// share their processes. Of such a process nothing in /proc is its own user's.
#[test]
fn process_of_the_same_user_cannot_read_its_memory() {
    let lease = Lease::new("private");
    let directory = lease.scene.directory.path();
    let copy = directory.join("program");
    let mut command = lease.container.command(&[]);
    fs::copy(command.get_program(), &copy).expect("a copy");
    let kubeconfig = lease.scene.managed_kubeconfig();
    for (path, mode) in [(directory, 0o755), (&*copy, 0o755), (&*kubeconfig, 0o644)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("its mode");
    }
    command.arg("-kubeconfig").arg(&kubeconfig).env("POD_NAME", "x").env("POD_NAMESPACE", "x");
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let program = copy.to_str().expect("text");
    let mut nobodys = Command::new(nobody[0]);
    nobodys.args(&nobody[1..]).arg(program).args(command.get_args()).arg("-metrics-port=0");
    nobodys.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut sidecar = Sidecar::spawn(nobodys, 0);
    within(10, "it runs", || sidecar.count(" starts ") > 0 || !sidecar.alive());
    let is_another = sidecar.count("setpriv: ") == 0;
    if !needs(Need::Found(is_another), "this user may not become another") {
        return;
    }
    let owner = fs::metadata(format!("/proc/{}/mem", sidecar.pid())).expect("its memory").uid();
    assert_eq!(owner, 0, "{}", sidecar.log());
}
