//! /readyz says what people need at night: since when and why heartbeats fail, and what is missing while it is 503.

use dev_apiserver::{Action, Rule};
use suite::{
    eventually,
    needs::{Need, needs},
    spoke::Spoke,
};

use crate::support::beating;

#[test]
fn readyz_says_since_when_and_why_heartbeats_fail() {
    if !needs(Need::Embedded, "the hub refuses the heartbeat alone") {
        return;
    }
    let (spoke, agent) = beating("readyz-beat", &[]);
    let rule = Rule::new(Action::Forbid).user(&spoke.user()).verb("update").resource("leases");
    spoke.hub.cluster.faults().add(rule);
    let body = eventually("/readyz says that the heartbeat fails", || {
        Some(agent.ask("/readyz").1).filter(|body| body.contains("the heartbeat fails: "))
    });
    assert!(body.contains(" failures since 20") && body.contains("403"), "{body}");
    assert_eq!(agent.ask("/readyz").0, 200, "the credential is good");
    spoke.hub.cluster.faults().clear();
    eventually("it is over", || (agent.ask("/readyz").1 == "ok\n").then_some(()));
}

#[test]
fn readyz_at_503_names_the_missing_bootstrap_secret() {
    let spoke = Spoke::new("readyz-bootstrap");
    spoke.delete_secret(&spoke.bootstrap);
    let agent = spoke.start(&[]);
    eventually("/readyz says which Secret is missing", || {
        let (code, body) = agent.ask("/readyz");
        let line = format!(
            "no valid bootstrap kubeconfig: there is no Secret {}/{}",
            spoke.namespace, spoke.bootstrap
        );
        (code == 503 && body.contains(&line)).then_some(())
    });
}
