//! csr-bootstrapper and wrong clocks: the hub's, that of a load balancer before it, that of another hub.

use std::time::{Duration, Instant};

use dev_apiserver::{Action, Rule};
use suite::{
    ocm::Hub,
    pause,
    spoke::{BOOTSTRAP, EXPIRED},
    throughout, within,
};

use crate::subjects::Agent;

const YEARS: i64 = 400 * 86_400;

/// Nobody else could ask for a certificate: a session that ends would end for good.
fn alone(name: &str) -> (Agent, suite::sidecar::Sidecar) {
    let subject = Agent::new(name);
    let agent = subject.joined(&[]);
    subject.spoke.delete_secret(BOOTSTRAP);
    agent.wait_for("no valid bootstrap kubeconfig");
    (subject, agent)
}

#[test]
fn a_date_that_is_wrong_for_a_while_ends_no_session() {
    for offset in [YEARS, -YEARS] {
        let (subject, agent) = alone("clock-once");
        subject.hub().faults().set_date_offset(offset);
        subject.gives_signs(&agent);
        subject.gives_signs(&agent);
        subject.hub().faults().set_date_offset(0);
        subject.gives_signs(&agent);
        within(20, "it is ready", || (agent.ask("/readyz").0 == 200).then_some(()));
        assert_eq!(agent.count(EXPIRED), 0, "{}", agent.log());
        let asked = subject.hub().requests();
        let posts = asked
            .iter()
            .filter(|it| it.verb == "create" && it.resource.starts_with("certificates"));
        assert_eq!(posts.count(), 1, "{}", agent.log());
    }
}

#[test]
fn the_date_of_a_gateway_is_nobodys() {
    let (subject, agent) = alone("clock-gateway");
    let faults = subject.hub().faults();
    faults.set_date_offset(YEARS);
    let body = Some("<html>bad gateway</html>".to_owned());
    let gateway = faults.add(Rule::new(Action::Answer { code: 502, body, retry_after: None }));
    within(30, "some are answered", || (faults.hits(gateway) >= 5).then_some(()));
    faults.heal();
    subject.gives_signs(&agent);
    assert_eq!(agent.ask("/readyz").0, 200, "{}", agent.log());
    assert!(agent.metric("sidecar_clock_skew_seconds").is_none_or(|skew| skew.abs() < 60.0));
}

/// The new hub's word says nothing of the old one's certificate.
#[test]
fn the_date_of_a_new_hub_does_not_judge_the_old_one() {
    let subject = Agent::new("clock-new");
    let agent = subject.joined(&[]);
    let new = Hub::on(suite::cluster::Cluster::embedded("new"));
    new.cluster.faults().set_date_offset(YEARS);
    let kubeconfig = new.bootstrap_kubeconfig(&new.cluster.address, subject.spoke.how);
    let unknown = Action::Answer { code: 401, body: None, retry_after: None };
    new.cluster.server().clear_requests();
    new.cluster.faults().add(Rule::new(unknown));
    subject.spoke.put_bootstrap(&kubeconfig);
    within(40, "the new hub is asked", || {
        (!new.cluster.server().requests().is_empty()).then_some(())
    });
    for _ in 0..3 {
        subject.gives_signs(&agent);
    }
    assert_eq!(agent.count(EXPIRED), 0, "{}", agent.log());
}

/// A certificate that its clocks call old is asked for once, and not as often as it can be.
#[test]
fn a_date_that_stays_wrong_makes_no_loop_of_requests() {
    let subject = Agent::new("clock-loop");
    let agent = subject.joined(&[]);
    subject.hub().faults().set_date_offset(YEARS);
    throughout(15_000, "it lives", || agent.ask("/healthz").0 == 200);
    let asked = subject.hub().requests();
    let posts =
        asked.iter().filter(|it| it.verb == "create" && it.resource.starts_with("certificates"));
    assert!(posts.count() <= 2, "{}", agent.log());
    subject.hub().faults().set_date_offset(0);
    subject.gives_signs(&agent);
}

/// A hub that restarts with the wrong authority refuses its whole fleet for some seconds.
#[test]
fn half_a_minute_of_401_brings_no_fleet_back() {
    let subject = Agent::new("clock-401");
    let agent = subject.joined(&[]);
    let refused = Action::Answer { code: 401, body: None, retry_after: None };
    let (faults, user) = (subject.hub().faults(), subject.user());
    let rule = faults.add(Rule::new(refused).user(&user));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(27) {
        assert_eq!(agent.ask("/healthz").0, 200);
        pause(200);
    }
    assert!(faults.hits(rule) > 1);
    faults.remove(rule);
    subject.gives_signs_within(90, &agent);
    let asked = subject.hub().requests();
    let posts =
        asked.iter().filter(|it| it.verb == "create" && it.resource.starts_with("certificates"));
    assert_eq!(posts.count(), 1, "{}", agent.log());
}

/// The Secret was read from a server whose cache is older than it: that is no reason to become another
/// cluster.
#[test]
fn a_list_from_before_the_secret_makes_no_new_name() {
    let subject = Agent::new("clock-stale");
    let managed = subject.spoke.managed.server();
    managed.freeze_cache();
    let mut first = subject.joined(&[]);
    let before = subject.spoke.credential().expect("the Secret");
    first.kill();
    let second = subject.start();
    within(40, &format!("it is ready\n{}", second.log()), || {
        (second.ask("/readyz").0 == 200).then_some(())
    });
    subject.gives_signs(&second);
    let after = subject.spoke.credential().expect("the Secret");
    assert_eq!(after["agent-name"], before["agent-name"], "{}", second.log());
    assert_eq!(after["tls.crt"], before["tls.crt"], "{}", second.log());
}
