//! csr-bootstrapper and wrong clocks: the hub's, and that of another hub.

use std::time::{Duration, SystemTime};

use dev_apiserver::Rule;
use suite::{
    faults::code,
    ocm::{Hub, PREFIX},
    spoke::{BOOTSTRAP, EXPIRED, Spoke},
    throughout, within,
};

use crate::subjects::Agent;

const YEARS: i64 = 400 * 86_400;
/// The Event of a new session.
const READY: &str = "HubClientConfigReady";

/// Nobody else could ask for a certificate: a session that ends would end for good.
fn alone(name: &str) -> (Agent, suite::sidecar::Sidecar) {
    let subject = Agent::new(name);
    let agent = subject.joined(&[]);
    subject.spoke.delete_secret(BOOTSTRAP);
    agent.wait_for("no valid bootstrap kubeconfig");
    (subject, agent)
}

/// How many certificates were asked for.
fn posted(subject: &Agent) -> usize {
    let asked = subject.hub().requests();
    let is_post = |verb: &str, of: &str| verb == "create" && of.starts_with("certificates");
    asked.iter().filter(|it| is_post(&it.verb, &it.resource)).count()
}

#[test]
fn brief_wrong_date_does_not_end_the_session() {
    for offset in [YEARS, -YEARS] {
        let (subject, agent) = alone("clock-once");
        subject.hub().faults().set_date_offset(offset);
        subject.sends_heartbeats(&agent);
        subject.sends_heartbeats(&agent);
        subject.hub().faults().set_date_offset(0);
        subject.sends_heartbeats(&agent);
        within(20, "it is ready", || agent.ask("/readyz").0 == 200);
        assert_eq!(agent.count(EXPIRED), 0, "{}", agent.log());
        assert_eq!(posted(&subject), 1, "{}", agent.log());
    }
}

/// The new hub's word says nothing of the old one's certificate.
#[test]
fn wrong_date_of_a_new_hub_does_not_affect_the_old_one() {
    let subject = Agent::new("clock-new");
    let agent = subject.joined(&[]);
    let new = Hub::on(suite::cluster::Cluster::embedded("new"));
    new.cluster.faults().set_date_offset(YEARS);
    let kubeconfig = new.bootstrap_kubeconfig(&new.cluster.address, subject.spoke.how);
    new.cluster.server().clear_requests();
    new.cluster.faults().add(Rule::new(code(401)));
    subject.spoke.put_bootstrap(&kubeconfig);
    within(40, "the new hub is asked", || !new.cluster.server().requests().is_empty());
    for _ in 0..3 {
        subject.sends_heartbeats(&agent);
    }
    assert_eq!(agent.count(EXPIRED), 0, "{}", agent.log());
}

/// A hub that restarts with the wrong authority refuses its whole fleet for some seconds.
#[test]
fn brief_401s_do_not_end_the_session() {
    let subject = Agent::new("clock-401");
    let agent = subject.joined(&[]);
    let (faults, user) = (subject.hub().faults(), subject.user());
    let rule = faults.add(Rule::new(code(401)).user(&user));
    // It comes back by its bootstrap identity after 30.
    throughout(20_000, "it lives", || agent.ask("/healthz").0 == 200);
    assert!(faults.hits(rule) > 1);
    faults.remove(rule);
    subject.sends_heartbeats_within(90, &agent);
    assert_eq!(posted(&subject), 1, "{}", agent.log());
}

/// The hub's time, by which the certificate is valid, is known from the bootstrap identity's answers alone.
#[test]
fn own_clock_that_is_ahead_at_a_restart_does_not_end_each_session() {
    let subject = Agent::new("clock-ahead");
    subject.joined(&[]).kill();
    let Spoke { secret, cluster, .. } = &subject.spoke;
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    let groups = [cluster, "managed-clusters"].map(|of| format!("{PREFIX}{of}"));
    let groups = groups.each_ref().map(String::as_str);
    let authority = subject.hub().ca();
    let (certificate, key) =
        authority.client_certificate_between(&subject.user(), &groups, now - 9 * hour, now - hour);
    let mut data = subject.spoke.credential().expect("a credential");
    data.insert("tls.crt".into(), certificate.into_bytes());
    data.insert("tls.key".into(), key.into_bytes());
    subject.spoke.put_secret(secret, &data);
    subject.hub().faults().set_date_offset(-5 * 3600);
    let agent = subject.start();
    agent.wait_for(READY);
    throughout(5000, "it has one session", || agent.count(READY) == 1);
}
