//! Several hubs, of which one is selected. Where upstream ends the process, the program goes on.

use dev_apiserver::{Action, Rule};
use serde_json::{Value, json};
use suite::{
    eventually,
    needs::{Need, needs},
    ocm::Bootstrap,
    pause,
    relay::Way,
    stays, throughout, within,
};

use crate::{
    joining::{
        support::{gives_signs, roles},
        two_hubs::{SECONDS, TwoHubs},
    },
    support::beats_again,
};

// ocm spokeagent_switch_hub_test.go: hub1 is down and timeout
#[test]
fn hub_that_is_down_is_left_after_the_timeout() {
    if !needs(Need::Embedded, "requests to the hub that was left are counted") {
        return;
    }
    let mut stage = TwoHubs::new("switch-down", Bootstrap::Manual);
    let mut agent = stage.joins_first(&["-hub-connection-timeout-seconds", "3"]);
    stage.spoke.hub_relay.set(Way::Closed);
    let second = stage.second.clone();
    // The selection follows the heartbeat.
    let request = within(10, "it asks hub2", || second.open_csr(&stage.spoke.cluster));
    second.approve_csr(&request);
    second.accept(&stage.spoke.cluster);
    let old = stage.is_on_second(&agent);
    agent.wait_for("took no heartbeat for 3 s");
    // hub1 is back: the agent neither leaves hub2 for it, nor sends it anything.
    let users = [stage.spoke.user(), stage.spoke.how.user()];
    let asked = || {
        let all = old.cluster.server().requests();
        all.iter().filter(|it| users.contains(&it.user)).count()
    };
    let before = asked();
    stage.spoke.hub_relay.set(Way::Open);
    gives_signs(&stage.spoke);
    stays("it stays on hub2", || {
        stage.spoke.count_events("BootstrapSelected") == 2 && asked() == before
    });
    assert!(agent.alive(), "{}", agent.log());
}

/// Bootstrap tokens live for hours, and certificates are renewed without them.
#[test]
fn restart_with_an_expired_token_keeps_the_hub_it_was_on() {
    let mut stage = TwoHubs::new("switch-restart", Bootstrap::Auto);
    let mut agent = stage.joins_first(&[]);
    stage.spoke.hub.deny(&stage.spoke.cluster);
    let old = stage.is_on_second(&agent);
    old.accept(&stage.spoke.cluster);
    let before = stage.spoke.credential();
    agent.kill();
    let mut config: Value = serde_json::from_str(&stage.second_kubeconfig()).expect("JSON");
    config["users"][0]["user"] = json!({"token": "expired"});
    stage.spoke.write("hub2.kubeconfig", &config.to_string());
    let agent = stage.start(&[]);
    agent.wait_for("BootstrapSelected");
    beats_again(&agent, 2);
    stays("hub1 comes first, and is not better", || {
        stage.spoke.credential() == before && old.csrs_of(&stage.spoke.cluster).len() == 1
    });
    let ready = agent.wait_for_code("/readyz", 200);
    assert!(ready.contains(&format!("hub https://{} is selected", stage.way.address)), "{ready}");
}

#[test]
fn a_kill_in_the_middle_of_a_switch_leads_to_no_second_request() {
    let mut stage = TwoHubs::new("switch-killed", Bootstrap::Manual);
    let mut agent = stage.joins_first(&[]);
    stage.spoke.hub.deny(&stage.spoke.cluster);
    let second = stage.second.clone();
    let request = within(SECONDS, "it asks hub2", || second.open_csr(&stage.spoke.cluster));
    agent.kill();
    let agent = stage.start(&[]);
    // Upstream would not: hub2 does not accept the cluster yet.
    agent.wait_for("hub2.kubeconfig is selected");
    agent.wait_for("is not approved yet");
    second.approve_csr(&request);
    second.accept(&stage.spoke.cluster);
    let old = stage.is_on_second(&agent);
    assert_eq!(roles(&stage.spoke), ["bootstrap"], "one request on hub2");
    assert_eq!(old.csrs_of(&stage.spoke.cluster).len(), 1, "and one on hub1");
}

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
