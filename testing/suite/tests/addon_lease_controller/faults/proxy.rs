//! Proxies and names: F22 and F23.

use serde_json::json;
use suite::{
    identity,
    needs::{Need, needs},
    proxy::Proxy,
    scene::{ADDON, Scene},
    sidecar::{Sidecar, VERBOSE, bare, behind, program},
};

use crate::support::{BACK, LOST, wait_for_renewal};

/// Puts a Secret whose kubeconfig names the hub as `server`, verified by another name.
fn put_hub_at(scene: &Scene, server: &str) {
    let token = scene.hub.server().token(&scene.hub_user(), &[]);
    let mut config = identity::kubeconfig(server, &scene.hub.ca, &json!({"token": token}));
    config["clusters"][0]["cluster"]["tls-server-name"] = json!("localhost");
    scene.put_secret(&[("kubeconfig".to_owned(), config.to_string().into_bytes())].into());
}

fn start(scene: &Scene, env: &[(&str, &str)]) -> Sidecar {
    scene.start_as(|command| {
        command.envs(env.iter().copied());
    })
}

#[test]
fn f22_the_proxy_of_the_environment_leads_to_the_hub() {
    let scene = Scene::new("proxy");
    let proxy = Proxy::to(&scene.hub.address);
    put_hub_at(&scene, "hub.example:6443");
    let sidecar = start(&scene, &[("HTTPS_PROXY", &proxy.url()), ("NO_PROXY", "10.0.0.0/8,.svc")]);
    sidecar.wait_for("lease renewal started");
    // The managed cluster is on the loopback, which no proxy ever serves.
    assert_eq!(proxy.asked(), ["CONNECT hub.example:6443 HTTP/1.1"]);
    put_hub_at(&scene, "192.0.2.7:6443");
    sidecar.wait_for("credentials rotated");
    wait_for_renewal(&scene);
    assert_eq!(proxy.asked()[1], "CONNECT 192.0.2.7:6443 HTTP/1.1");
}

#[test]
fn f22_no_proxy_with_a_network_keeps_the_proxy_out() {
    let scene = Scene::new("no-proxy");
    let proxy = Proxy::to(&scene.hub.address);
    // Not an address that anybody has: reserved, so the system refuses it at once.
    put_hub_at(&scene, "240.1.2.3:6443");
    let sidecar = start(&scene, &[("HTTPS_PROXY", &proxy.url()), ("NO_PROXY", "240.0.0.0/4")]);
    sidecar.wait_for(LOST);
    assert!(proxy.asked().is_empty(), "{:?}", proxy.asked());
    put_hub_at(&scene, "hub.example:6443");
    sidecar.wait_for("is renewed ");
    assert!(!proxy.asked().is_empty());
}

/// The service account's files in a /run of its own, which is where /var/run points.
const AS_A_POD: &str = r#"
    set -e
    mount -t tmpfs none /run
    account=/run/secrets/kubernetes.io/serviceaccount
    mkdir -p "$account"
    cp "$ACCOUNT"/* "$account"
    exec "$0" "$@"
"#;

#[test]
fn f22_in_a_cluster_the_proxy_is_used_as_client_go_does() {
    if !needs(
        Need::Command(&["unshare", "-m", "mount", "-t", "tmpfs", "none", "/run"]),
        "this user may not mount anything in a namespace of its own",
    ) {
        return;
    }
    let scene = Scene::new("pod");
    let proxy = Proxy::to(&scene.managed.address);
    scene.write("token", &identity::token(&scene.managed, &scene.namespace, ADDON));
    scene.write("ca.crt", &scene.managed.ca);
    scene.write("namespace", &scene.namespace);
    let mut command = bare(&program("addon-lease-controller"));
    command
        .args(["-lease-name", ADDON, "-lease-duration", "1", "-startup-delay", "0"])
        .args(["-metrics-port", "0"])
        .args(VERBOSE)
        .env("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        .env("KUBERNETES_SERVICE_PORT", "443")
        .env("HTTPS_PROXY", proxy.url())
        .env("ACCOUNT", scene.directory.path());
    let command = behind(&["unshare", "-m", "sh", "-c", AS_A_POD], &command);
    let sidecar = Sidecar::spawn(command, 0);
    sidecar.wait_for("server=\"the local cluster\" period=1.0");
    assert_eq!(proxy.asked(), ["CONNECT kubernetes.default.svc:443 HTTP/1.1"]);
}

#[test]
fn f23_a_name_is_looked_up_and_an_unknown_one_is_logged() {
    let scene = Scene::new("names");
    let port = scene.hub_relay.address.port();
    put_hub_at(&scene, &format!("localhost:{port}"));
    let sidecar = start(&scene, &[]);
    sidecar.wait_for("lease renewal started");
    put_hub_at(&scene, "nonexisting.invalid:6443");
    sidecar.wait_for("failed to lookup address");
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
    put_hub_at(&scene, &format!("localhost:{port}"));
    sidecar.wait_for(BACK);
}
