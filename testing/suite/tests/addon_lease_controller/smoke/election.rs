//! Of several replicas with -leader-election only the leader renews.

use suite::{cluster::resource, eventually, scene::Scene};

use crate::{
    election::{ELECTION, LEADS, holder, two},
    support::{renewals, renews},
};

#[test]
fn only_the_leader_renews_and_the_next_one_follows() {
    let scene = Scene::new("onlyleader");
    let (mut first, second) = two(&scene);
    renews(&first.sidecar, "hub", 3);
    assert_eq!(renewals(&second.sidecar, "hub"), 0.0);
    assert!(!holder(&scene).is_empty());
    let config_maps = resource("", "configmaps", "ConfigMap");
    assert!(scene.managed.get(&config_maps.object(&scene.namespace, ELECTION)).is_none());
    let leads = "leader_election_master_status{name=\"my-addon-addon-lease.agent.stolostron.io\"}";
    assert_eq!(first.sidecar.metric(leads), Some(1.0));
    assert_eq!(second.sidecar.metric(leads), Some(0.0));
    // A standby of a live leader is ready.
    for replica in [&first, &second] {
        assert_eq!(replica.sidecar.ask("/readyz"), (200, "ok\n".to_owned()));
    }
    let before = holder(&scene);
    first.sidecar.ends_at_once();
    eventually("the other one leads", || second.sidecar.count(LEADS) == 1);
    renews(&second.sidecar, "hub", 1);
    assert_ne!(holder(&scene), before);
}
