//! Hosts with IPv6 alone: servers, a proxy, and what bypasses it; and a proxy that never finishes its answer.

use std::{
    io::Write,
    net::{IpAddr, Ipv6Addr, TcpListener},
    thread,
};

use serde_json::json;
use suite::{identity, pause, proxy::Proxy, within};

use crate::subjects::{Agent, Lease, Remote};

const IP: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// Nobody's: reserved for documents.
const NOBODY: &str = "[2001:db8::7]:6443";

#[test]
fn programs_work_with_ipv6_only() {
    let (lease, agent) = (Lease::on(IP, "six-lease"), Agent::on(IP, "six-agent"));
    let remote = Remote::on(IP, "six-remote");
    assert!(
        lease.scene.hub_relay.address.is_ipv6() && lease.scene.hub.address.starts_with("[::1]")
    );
    lease.renews(&lease.start());
    drop(agent.joined(&[]));
    let credential = agent.spoke.credential().expect("the Secret");
    let file = String::from_utf8_lossy(&credential["kubeconfig"]);
    assert!(file.contains("https://[::1]:"), "{file}");
    remote.copies(&remote.start(), "one");
}

/// A proxy that answers a byte at a time, forever: that costs the time to connect, and no more.
#[test]
fn trickling_proxy_is_given_up() {
    let subject = Lease::new("drip");
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", proxy.local_addr().expect("its address"));
    thread::spawn(move || {
        for mut client in proxy.incoming().flatten() {
            thread::spawn(move || {
                let mut part: &[u8] = b"HTTP/1.1 200 OK\r\nX: ";
                while client.write_all(part).is_ok() {
                    part = b"x";
                    pause(300);
                }
            });
        }
    });
    put_hub_at_nobodys(&subject);
    let sidecar = subject.start_as(|command| {
        command.arg("-lease-duration=5").env("HTTPS_PROXY", url);
    });
    within(40, &format!("it is given up\n{}", sidecar.log()), || {
        sidecar.warnings("no answer in time") > 0
    });
    assert_eq!(sidecar.ask("/healthz").0, 200);
    subject.scene.put_secret(&subject.scene.new_credentials());
    subject.renews(&sidecar);
}

/// Puts a Secret whose kubeconfig leads to the hub at an address that only a proxy reaches.
fn put_hub_at_nobodys(subject: &Lease) {
    let scene = &subject.scene;
    let token = scene.hub.server().token(&scene.hub_user(), &[]);
    let mut config = identity::kubeconfig(NOBODY, &scene.hub.ca, &json!({"token": token}));
    config["clusters"][0]["cluster"]["tls-server-name"] = json!("localhost");
    scene.put_secret(&[("kubeconfig".to_owned(), config.to_string().into_bytes())].into());
}

#[test]
fn ipv6_proxy_is_asked_for_an_ipv6_server() {
    let subject = Lease::on(IP, "six-proxy");
    let proxy = Proxy::to(&subject.scene.hub.address);
    assert!(proxy.url().starts_with("http://[::1]:"), "{}", proxy.url());
    put_hub_at_nobodys(&subject);
    let sidecar = subject.start_as(|command| {
        let others = "2001:db8:1::/48,[2001:db8::8],::2";
        command.arg("-lease-duration=1").env("HTTPS_PROXY", proxy.url()).env("NO_PROXY", others);
    });
    subject.renews(&sidecar);
    assert!(proxy.asked()[0].starts_with(&format!("CONNECT {NOBODY} HTTP/1.1\r\n")));
}
