//! The names of cluster and agent, and the request: generated once and for all.

use suite::{eventually, identity::Data, sidecar::Sidecar, spoke::Spoke};

fn start_nameless(spoke: &Spoke) -> Sidecar {
    spoke.start(&["-cluster-name", "", "-agent-id", ""])
}

fn text(data: &Data, key: &str) -> String {
    String::from_utf8(data[key].clone()).expect("UTF-8")
}

fn wait_for_pending(spoke: &Spoke) -> Data {
    eventually("a request is stored", || spoke.pending())
}

#[test]
fn generated_names_survive_restarts_before_anybody_approved() {
    let mut spoke = Spoke::new("names-crash");
    let mut sidecar = start_nameless(&spoke);
    let first = wait_for_pending(&spoke);
    sidecar.kill();
    let (cluster, agent) = (text(&first, "cluster-name"), text(&first, "agent-name"));

    spoke.cluster = cluster;
    for ends in [Sidecar::kill, Sidecar::stops_as_asked] {
        let mut sidecar = start_nameless(&spoke);
        sidecar.wait_for(&format!("cluster={} agent={agent}", spoke.cluster));
        ends(&mut sidecar);
        assert_eq!(wait_for_pending(&spoke), first, "names, key and request are the same");
    }
    let sidecar = start_nameless(&spoke);
    sidecar.wait_for(&format!("cluster={} agent={agent}", spoke.cluster));
    let csr = spoke.hub.approve_next(&spoke.cluster);
    assert_eq!(csr, text(&first, "csr-name"));
    spoke.hub.accept(&spoke.cluster);
    let saved = eventually("the credential is saved", || spoke.credential());
    assert_eq!(text(&saved, "cluster-name"), spoke.cluster);
    assert_eq!(text(&saved, "agent-name"), agent);
    assert_eq!(saved["tls.key"], first["tls.key"], "the key that was stored first");
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1, "one request in all");
    assert!(spoke.hub.managed_cluster(&spoke.cluster).is_some());
}
