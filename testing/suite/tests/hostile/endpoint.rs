//! The endpoint on hosts of one IP family.

use std::process::{Command, Stdio};

use suite::{
    eventually,
    needs::{Need, needs},
    pause,
    sidecar::Sidecar,
};

use crate::subjects::Lease;

/// A network namespace of its own has no address but ::1, and none at all
/// without IPv6.
#[test]
fn one_ip_family_is_enough() {
    if !needs(Need::Command(&["unshare", "-rn", "true"]), "no network namespace can be made here") {
        return;
    }
    let script = "ip link set lo up 2>/dev/null; exec \"$0\" \"$@\"";
    for (off, host) in [
        (
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.lo.disable_ipv6=1; ",
            "127.0.0.1",
        ),
        ("ip link set lo up; ip -4 address flush dev lo; ", "::1"),
    ] {
        let subject = Lease::new("family");
        let mut command = subject.container.command(&[("lease-namespace", "x")]);
        command
            .arg("-kubeconfig")
            .arg(subject.scene.managed_kubeconfig())
            .arg("-metrics-port=8384");
        let inside = format!("{off}{script}");
        let mut unshare = Command::new("unshare");
        unshare
            .args(["-rn", "sh", "-c", &inside])
            .arg(command.get_program())
            .args(command.get_args());
        unshare
            .env("POD_NAME", "x")
            .env("POD_NAMESPACE", "x")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        unshare.stdin(Stdio::null());
        let mut sidecar = Sidecar::spawn(unshare, 0);
        pause(300);
        assert!(sidecar.alive(), "{}", sidecar.log());
        let ask = format!(
            "exec 3<>/dev/tcp/{host}/8384; printf 'GET /healthz HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3"
        );
        let pid = sidecar.pid().to_string();
        let answer = || {
            let output = Command::new("nsenter")
                .args(["-t", &pid, "-U", "-n", "--preserve-credentials", "bash", "-c", &ask])
                .output()
                .expect("nsenter");
            pause(200);
            String::from_utf8_lossy(&output.stdout).starts_with("HTTP/1.1 200")
        };
        eventually(host, answer);
    }
}
