//! /readyz says what people need at night: what is missing while it is 503, what to do about it, and since when and why
//! heartbeats fail.

use dev_apiserver::{Action, Rule};
use suite::{
    eventually,
    needs::{Need, needs},
    sidecar::Sidecar,
    spoke::Spoke,
};

use crate::{
    joining::support::{let_in, settled},
    support::beating,
};

/// Waits until /readyz is 503 and says all of this.
#[track_caller]
fn says(agent: &Sidecar, parts: &[&str]) {
    eventually(&format!("/readyz says {parts:?}"), || {
        let (code, body) = agent.ask("/readyz");
        code == 503 && parts.iter().all(|part| body.contains(part))
    });
}

#[test]
fn readyz_at_503_names_what_is_missing_and_how_it_ended() {
    const NOBODY: &str = "there is no bootstrap kubeconfig to request one with";
    let spoke = Spoke::new("readyz");
    spoke.delete_secret(&spoke.bootstrap);
    let agent = spoke.start(&[]);
    let secret = format!("Secret {}/{} does not exist", spoke.namespace, spoke.secret);
    let bootstrap = format!(
        "no valid bootstrap kubeconfig: there is no Secret {}/{}",
        spoke.namespace, spoke.bootstrap
    );
    says(&agent, &[&secret, NOBODY, &bootstrap]);
    spoke.put_bootstrap("nonsense");
    agent.wait_for_times("no valid bootstrap kubeconfig", 2);
    says(&agent, &[&secret, NOBODY]);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    let request = spoke.hub.next_csr(&spoke.cluster);
    let approve = format!("kubectl certificate approve {request}");
    says(&agent, &[&secret, &request, &approve]);
    assert!(!agent.ask("/readyz").1.contains(NOBODY));
    assert_eq!(agent.ask("/healthz"), (200, "ok\n".to_owned()));
    spoke.hub.deny_csr(&request);
    let denied = format!("CSR {request} was denied: Suite: by a person");
    says(&agent, &[&denied, "requesting another one in 3"]);
    assert!(!agent.ask("/readyz").1.contains(&approve));
}

#[test]
fn readyz_names_the_refusal_of_the_hub() {
    if !needs(Need::Embedded, "rights can be taken away at once") {
        return;
    }
    let spoke = Spoke::new("readyz-refused");
    let faults = spoke.hub.cluster.faults();
    let rule = Rule::new(Action::Forbid).verb("create").resource("certificatesigningrequests");
    faults.add(rule.user(&spoke.how.user()));
    let agent = spoke.start(&[]);
    says(&agent, &["does not exist", "forbidden", "certificatesigningrequests"]);
    faults.clear();
    let_in(&spoke);
    settled(&spoke, &agent);
}

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
    eventually("it is over", || agent.ask("/readyz").1 == "ok\n");
}
