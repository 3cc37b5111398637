//! Hosted mode: the agent runs on a management cluster and joins another one, the spoke.

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{
    eventually,
    hosted::Hosted,
    listing::list,
    ocm::{AVAILABLE, claims, serve_claims},
    real,
    relay::Way,
    sidecar::Sidecar,
    spoke::SECRET,
    stays, within,
};

use crate::{
    inventory,
    support::{account, beats_again, cluster},
};

/// A spoke that the hub finds available, with a heartbeat each second.
pub(crate) fn joined(name: &str) -> (Hosted, Sidecar) {
    let hosted = Hosted::new(name);
    let (stage, agent) = (&hosted.stage, hosted.start(&[]));
    stage.hub.wait_for_condition(&stage.cluster, AVAILABLE, "True");
    stage.hub.set_lease_duration(&stage.cluster, 1);
    agent.wait_for("period=1.0");
    (hosted, agent)
}

fn available(hosted: &Hosted) -> String {
    let condition = hosted.stage.hub.condition(&hosted.stage.cluster, AVAILABLE);
    condition.expect("a condition").0
}

/// A resource that no other test's nodes have.
fn widgets(hosted: &Hosted) -> String {
    format!("example.com/{}", hosted.stage.namespace)
}

/// Creates a node with this number of widgets.
fn add_node(hosted: &Hosted, count: &str) {
    let name = format!("{}-a", hosted.stage.namespace);
    inventory::create_node(&hosted.spoke, &name, &json!({widgets(hosted): count}));
}

#[track_caller]
fn has_capacity(hosted: &Hosted, count: &str) {
    let widgets = widgets(hosted);
    within(60, &format!("{count} of {widgets}"), || {
        cluster(&hosted.stage)["status"]["capacity"][&widgets] == count
    });
}

/// The lines of /metrics about requests to the two clusters that the servers refused with 403.
fn forbidden(agent: &Sidecar) -> Vec<String> {
    let metrics = agent.ask("/metrics").1;
    let lines = metrics.lines().filter(|line| line.contains("code=\"403\""));
    let of_hub = |line: &str| {
        ["hub", "bootstrap"].iter().any(|it| line.contains(&format!("target=\"{it}\"")))
    };
    lines.filter(|line| !of_hub(line)).map(str::to_owned).collect()
}

#[test]
fn hosted_each_thing_is_on_its_cluster() {
    let hosted = Hosted::new("hosted");
    let stage = &hosted.stage;
    serve_claims(&hosted.spoke);
    let name = format!("{}.example.com", stage.namespace);
    inventory::put_as(&claims(), &hosted.spoke, (&name, "yes"), &json!({}));
    add_node(&hosted, "3");
    let url = "https://spoke.example.com:6443";
    let flags = ["-spoke-external-server-urls", url, "-max-custom-cluster-claims", "1000"];
    let agent = hosted.start(&flags);
    stage.hub.wait_for_condition(&stage.cluster, AVAILABLE, "True");
    has_capacity(&hosted, "3");
    let claim = json!({"name": name, "value": "yes"});
    within(60, "the claim is told", || {
        let told = cluster(stage)["status"]["clusterClaims"].clone();
        told.as_array().is_some_and(|all| all.contains(&claim))
    });
    let configs = || cluster(stage)["spec"]["managedClusterClientConfigs"].clone();
    let ours = json!({"url": url, "caBundle": BASE64_STANDARD.encode(&hosted.spoke.ca)});
    assert_eq!(configs(), json!([ours]), "from the creation on");
    // Somebody replaces it by one of another URL, and by one of another authority.
    for (theirs, expected) in [("https://other.example.com", 2), (url, 1)] {
        let theirs = json!({"url": theirs, "caBundle": BASE64_STANDARD.encode("theirs")});
        let spec = json!({"managedClusterClientConfigs": [theirs]});
        stage.hub.change(&stage.cluster, &json!({"spec": spec}));
        eventually("ours is there again", || {
            let all = configs();
            let all = all.as_array()?;
            (all.len() == expected && all.last() == Some(&ours)).then_some(())
        });
    }
    assert!(stage.credential().is_some(), "the credential is on the management cluster");
    assert_eq!(stage.count_events("ClientCertificateCreated"), 1, "with its Events");
    let secrets = list(&hosted.spoke.client, &SECRETS.collection(&stage.namespace), "");
    let names: Vec<Value> =
        secrets.expect("Secrets").iter().map(|it| it["metadata"]["name"].clone()).collect();
    assert!(!names.contains(&SECRET.into()), "{names:?}");
    assert_eq!(forbidden(&agent), [""; 0]);
    if !real() {
        let user = account(stage);
        let here = stage.managed.requests_of(&user);
        let others = here.iter().filter(|it| !["secrets", "events"].contains(&&*it.resource));
        assert_eq!(others.count(), 0, "nothing else is asked of the management cluster");
        let there = hosted.spoke.requests_of(&user);
        let secret = there.iter().find(|it| ["secrets", "events"].contains(&&*it.resource));
        assert!(secret.is_none(), "{secret:?}");
    }
}

#[test]
fn hosted_cluster_that_is_away_does_not_end_the_heartbeat() {
    let (hosted, agent) = joined("hosted-away");
    hosted.stage.managed_relay.set(Way::Closed);
    add_node(&hosted, "3");
    has_capacity(&hosted, "3");
    beats_again(&agent, 3);
    stays("the spoke is well without the management cluster", || available(&hosted) == "True");
    assert_eq!(agent.ask("/readyz").0, 200);
    hosted.way.set(Way::Closed);
    // A failure has to last 20 s.
    within(60, "it is told", || available(&hosted) == "False");
    beats_again(&agent, 3);
    assert_eq!(agent.ask("/readyz").0, 200);
    has_capacity(&hosted, "3");
    hosted.stage.managed_relay.set(Way::Open);
    hosted.way.set(Way::Open);
    within(30, "the spoke is well", || available(&hosted) == "True");
    assert!(hosted.stage.credential().is_some());
}
