//! The proxy that a bootstrap kubeconfig names.

use apiclient::resource::SECRETS;
use kubeconfig::secret;
use serde_json::{Value, json};
use suite::{eventually, proxy::Proxy, spoke::Spoke};

use crate::joining::support::{kubeconfig, settled};

// ocm spokecluster_joining_test.go:135
#[test]
fn cluster_and_its_add_ons_join_through_an_http_proxy() {
    let spoke = Spoke::auto("join-http-proxy");
    let proxy = Proxy::to(&spoke.hub_relay.address.to_string());
    let mut bootstrap: Value = serde_json::from_str(&spoke.bootstrap_kubeconfig()).expect("JSON");
    bootstrap["clusters"][0]["cluster"]["proxy-url"] = json!(proxy.url());
    spoke.put_bootstrap(&bootstrap.to_string());
    let sidecar = spoke.start(&[]);
    settled(&spoke, &sidecar);
    let line = format!("\n    proxy-url: {}\n", proxy.url());
    let saved = kubeconfig(&spoke.credential().expect("the Secret"));
    assert!(saved.contains(&line), "{saved}");
    let asked = proxy.asked();
    let expected = format!("CONNECT {} HTTP/1.1", spoke.hub_relay.address);
    assert!(asked.iter().all(|line| *line == expected), "{asked:?}");
    let connections = spoke.hub_relay.traffic().connections;
    assert!(connections >= 2, "as bootstrap identity and as agent");
    assert!(asked.len() as u64 >= connections, "{asked:?}, but {connections} connections");
    let namespace = spoke.addon_namespace();
    spoke.register_addon(&namespace, "addon1");
    let secret = SECRETS.object(&namespace, "addon1-hub-kubeconfig");
    let secret = eventually("the add-on has its credential", || spoke.managed.get(&secret));
    let data = secret::data(&secret).expect("base64");
    let saved = String::from_utf8_lossy(&data["kubeconfig"]);
    assert!(saved.contains(&line), "{saved}");
}
