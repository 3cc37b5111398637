//! The endpoint among clients that say nothing, and on hosts of either IP family.

use std::{
    io::{Read, Write},
    net::{IpAddr, TcpStream},
    process::Stdio,
    time::Duration,
};

use suite::{
    eventually,
    needs::{Need, needs},
    pause,
    sidecar::Sidecar,
    within,
};

use crate::subjects::{Agent, Dumper, Lease, Remote};

/// What a kubelet gets from this address within a second.
fn probe(host: &str, port: u16) -> Option<String> {
    let address = (host.parse::<IpAddr>().ok()?, port).into();
    ask(TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?)
}

fn ask(mut stream: TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer).filter(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// As many silent ones as they like, from an address of their own: any pod can do that.
#[track_caller]
fn is_answered_beside_silent_guests(sidecar: &Sidecar) {
    within(20, "the endpoint is there", || probe("127.0.0.1", sidecar.port));
    let knock = || TcpStream::connect(("127.0.0.1", sidecar.port)).ok();
    let mut silent: Vec<_> = (0..64).filter_map(|_| knock()).collect();
    for round in 0..40 {
        silent.extend(knock());
        assert!(probe("127.0.0.1", sidecar.port).is_some(), "probe {round}");
    }
    // And some that say half a request.
    for stream in &mut silent {
        let _ = stream.write_all(b"GET /hea");
    }
    assert!(probe("127.0.0.1", sidecar.port).is_some());
    // Whoever comes last may take a moment to ask.
    let slow = knock().expect("a connection");
    pause(300);
    assert!(ask(slow).is_some());
    drop(silent);
}

#[test]
fn silent_guests_keep_no_probe_from_its_answer() {
    let (lease, agent) = (Lease::new("guests-lease"), Agent::new("guests-agent"));
    let (dumper, remote) = (Dumper::new("guests-dumper"), Remote::new("guests-remote"));
    for (container, sidecar) in [
        (&lease.container, lease.start()),
        (&agent.container, agent.start()),
        (&dumper.container, dumper.start()),
        (&remote.container, remote.start()),
    ] {
        is_answered_beside_silent_guests(&sidecar);
        container.fits(&sidecar);
    }
}

/// By the default of -metrics-host, as in every manifest.
#[test]
fn both_ip_families_are_served() {
    let (lease, agent) = (Lease::new("families-lease"), Agent::new("families-agent"));
    let (dumper, remote) = (Dumper::new("families-dumper"), Remote::new("families-remote"));
    for sidecar in [lease.start(), agent.start(), dumper.start(), remote.start()] {
        for host in ["127.0.0.1", "::1"] {
            within(20, &format!("{host} is served"), || probe(host, sidecar.port));
        }
    }
}

/// On a host without the other family. A network namespace of its own has no address but ::1, and none at all
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
        let mut unshare = std::process::Command::new("unshare");
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
            let output = std::process::Command::new("nsenter")
                .args(["-t", &pid, "-U", "-n", "--preserve-credentials", "bash", "-c", &ask])
                .output()
                .expect("nsenter");
            pause(200);
            String::from_utf8_lossy(&output.stdout).starts_with("HTTP/1.1 200")
        };
        eventually(host, answer);
    }
}
