//! Several hubs, of which one is selected. Where upstream exits, this program keeps running.

pub(crate) mod two_hubs;

use dev_apiserver::{Action, Rule};
use suite::{
    eventually,
    needs::{Need, needs},
    ocm::Bootstrap,
    pause,
    relay::Way,
    throughout, within,
};

use self::two_hubs::{SECONDS, TwoHubs};
use crate::{addon_registration::support::*, support::beats_again};

/// The first hub refuses the cluster, and the Secret for the second one comes late.
#[test]
fn refusals_are_reported_until_a_hub_can_be_selected() {
    if !needs(Need::Embedded, "the hub refuses, and its requests are counted") {
        return;
    }
    let mut stage = TwoHubs::new("switch-none", Bootstrap::Auto);
    let hub = stage.spoke.hub.clone();
    let forbid = Rule::new(Action::Forbid).resource("managedclusters").verb("get");
    hub.cluster.faults().add(forbid);
    let agent = stage.start_with_secrets();
    agent.wait_for("no hub can be selected");
    let ready = agent.wait_for_code("/readyz", 503);
    for part in ["bootstrap-hub-kubeconfig", "get managedclusters", "there is no Secret"] {
        assert!(ready.contains(part), "{ready}");
    }
    let asked = || {
        let all = hub.cluster.server().requests();
        all.iter().filter(|it| it.resource == "managedclusters" && it.verb == "get").count()
    };
    throughout(5000, "it is seldom asked", || asked() < 5);
    assert_eq!(agent.warnings("no hub can be selected"), 1, "{}", agent.log());
    stage.put_second_secret();
    stage.is_on_second(&agent);
    eventually("the Event tells it", || stage.spoke.count_events("BootstrapSelected") == 1);
    let ready = agent.ask("/readyz").1;
    assert!(!ready.contains("no hub can be selected"), "{ready}");
}

/// The wait between two selections, and a request on its way, end with the process. A first hub to which packets vanish
/// does not delay the second.
#[test]
fn selection_ends_with_the_process_or_with_a_hub_that_answers() {
    let mut stage = TwoHubs::new("switch-end", Bootstrap::Auto);
    stage.spoke.hub_relay.set(Way::Hole);
    stage.way.set(Way::Silent);
    let mut agent = stage.start(&[]);
    agent.wait_for("the agent's names are known");
    // A request is on its way.
    pause(500);
    agent.ends_at_once();
    let mut agent = stage.start(&[]);
    within(SECONDS, "both were asked", || agent.log().contains("no hub can be selected"));
    agent.ends_at_once();
    stage.way.set(Way::Open);
    let agent = stage.start(&[]);
    stage.is_on_second(&agent);
}

/// Its add-ons follow; an add-on of the old hub alone loses its credential.
#[test]
fn addon_registration_follows_to_another_hub() {
    let mut stage = TwoHubs::new("addon-switched", Bootstrap::Auto);
    let agent = stage.joins_first(&[]);
    let namespace = stage.spoke.addon_namespace();
    for (name, secret) in [("addon2", "addon2-hub-kubeconfig"), (ADDON, KUBE_CLIENT_SECRET)] {
        add_another(&stage.spoke.hub, &stage.spoke.cluster, name, &namespace);
        stage.spoke.hub.approve_next(&stage.spoke.cluster);
        certificate(&stage.spoke.managed, &namespace, secret, None);
    }
    // Of an earlier time of the cluster on hub2.
    stage.second.cluster.create_namespace(&stage.spoke.cluster);
    add_another(&stage.second, &stage.spoke.cluster, ADDON, &namespace);
    let before = stage.spoke.managed.read_secret(&namespace, KUBE_CLIENT_SECRET);
    stage.spoke.hub.deny(&stage.spoke.cluster);
    let old = stage.is_on_second(&agent);
    let request = within(SECONDS, "the add-on asks hub2", || csrs(&stage.spoke).pop());
    stage.spoke.hub.approve_csr(request["metadata"]["name"].as_str().expect("a name"));
    let (after, issued) =
        certificate(&stage.spoke.managed, &namespace, KUBE_CLIENT_SECRET, before.as_ref());
    assert_eq!(issued.bearer.common_name, user(&stage.spoke));
    let kubeconfig = String::from_utf8_lossy(&after["kubeconfig"]).into_owned();
    assert!(kubeconfig.contains(&stage.way.address.to_string()), "{kubeconfig}");
    is_known(&after);
    gone(&stage.spoke.managed, &namespace, "addon2-hub-kubeconfig");
    assert_eq!(csrs(&stage.spoke).len(), 1, "one request on hub2");
    assert!(old.addon(&stage.spoke.cluster, "addon2").is_some(), "hub1 has both as before");
}

/// The agent keeps the request that waits at hub2, and stores the selected hub with it.
#[test]
fn restart_stays_at_the_hub_that_was_selected_last() {
    let stage = TwoHubs::new("switch-back", Bootstrap::Manual);
    let flags = ["-hub-connection-timeout-seconds", "2"];
    let mut agent = stage.joins_first(&flags);
    let [first, second] = [&stage.spoke.hub_relay, &stage.way].map(|way| way.address.to_string());
    let is_for = |stage: &TwoHubs, hub: &str| {
        let pending = stage.spoke.pending().unwrap_or_default();
        pending.get("hub-server").is_some_and(|at| String::from_utf8_lossy(at).contains(hub))
    };
    stage.spoke.hub.deny(&stage.spoke.cluster);
    within(SECONDS, "it asks hub2", || is_for(&stage, &second));
    stage.spoke.hub.accept(&stage.spoke.cluster);
    stage.way.set(Way::Hole);
    within(SECONDS, "it is back on hub1", || is_for(&stage, &first));
    agent.kill();
    let agent = stage.start(&flags);
    beats_again(&agent, 2);
    assert!(!agent.log().contains(&format!("for hub https://{second}")), "{}", agent.log());
}
