//! Several hubs, of which one is selected. Where upstream ends the process, the program goes on.

use dev_apiserver::{Action, Rule};
use suite::{
    eventually,
    needs::{Need, needs},
    ocm::Bootstrap,
    pause,
    relay::Way,
    throughout, within,
};

use crate::joining::two_hubs::{SECONDS, TwoHubs};

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

/// Packets to the first hub vanish, which does not delay the second.
#[test]
fn the_first_hub_that_will_do_is_joined_and_kept() {
    let mut stage = TwoHubs::new("switch-first", Bootstrap::Auto);
    stage.spoke.hub_relay.set(Way::Hole);
    let mut agent = stage.start(&[]);
    stage.is_on_second(&agent);
    agent.kill();
    // After a restart too, though the first one is back.
    stage.spoke.hub_relay.set(Way::Open);
    let agent = stage.start(&[]);
    stage.is_on_second(&agent);
}

/// The wait between two selections, and a request on its way, end with the process.
#[test]
fn a_selection_ends_with_the_process() {
    let stage = TwoHubs::new("switch-end", Bootstrap::Auto);
    stage.spoke.hub_relay.set(Way::Silent);
    stage.way.set(Way::Hole);
    let mut agent = stage.start(&[]);
    agent.wait_for("the agent's names are known");
    // A request is on its way.
    pause(500);
    agent.ends_at_once();
    let mut agent = stage.start(&[]);
    within(SECONDS, "both were asked", || agent.log().contains("no hub can be selected"));
    agent.ends_at_once();
}
