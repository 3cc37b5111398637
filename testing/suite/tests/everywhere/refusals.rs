//! Rejections: 401, 403 and 429.

use std::time::Duration;

use dev_apiserver::Action;
use suite::{eventually, faults::code, pause, within};

use crate::{
    stage::RECOVERY,
    strike::{answered, answered_once, strike},
};

#[test]
fn single_401_is_no_more_than_a_failure() {
    strike("once", |subject| answered_once(subject, &code(401)));
}

#[test]
fn lasting_401_is_asked_at_a_bounded_pace() {
    strike("unknown", |subject| answered(subject, code(401)));
}

#[test]
fn lasting_403_names_what_was_asked_for() {
    strike("forbidden", |subject| {
        answered(subject, Action::Forbid);
        let log = subject.process.log();
        let named = |line: &str| {
            let verbs = ["get ", "list ", "watch ", "create ", "update ", "patch "];
            line.contains("403") && verbs.iter().any(|verb| line.contains(verb))
        };
        assert!(log.lines().any(named), "{log}");
    });
}

#[test]
fn retry_after_of_a_429_is_heeded() {
    strike("busy", |subject| {
        let busy = Action::Answer { code: 429, body: None, retry_after: Some("3".into()) };
        let peer = subject.peer();
        let rule = peer.add(busy);
        let old = peer.cluster.server().counters().connections;
        peer.relay.cut();
        within(RECOVERY, "it asks", || peer.faults().hits(rule) > 0);
        pause(500);
        peer.faults().remove(rule);
        let asked = || {
            let all = peer.cluster.server().requests();
            all.into_iter().filter(|it| it.user == peer.user).collect::<Vec<_>>()
        };
        // What else there is, such as a look at a server's health, has its own time.
        let lasting = |it: &dev_apiserver::Request| {
            it.code == 429 && ["list", "watch", "update"].contains(&&*it.verb)
        };
        let all: Vec<_> = asked().into_iter().filter(lasting).collect();
        // An answer that went with its connection was none, and is asked for again at once.
        let is_lost = |it: &dev_apiserver::Request| {
            let again = |other: &dev_apiserver::Request| {
                (&other.verb, &other.resource) == (&it.verb, &it.resource)
                    && other.connection != it.connection
                    && other.at > it.at
            };
            it.connection <= old && all.iter().any(again)
        };
        for refused in all.iter().filter(|it| !is_lost(it)) {
            let next = eventually("it asks again", || {
                let same = |it: &dev_apiserver::Request| {
                    it.at > refused.at
                        && (&it.verb, &it.resource) == (&refused.verb, &refused.resource)
                };
                asked().into_iter().find(same)
            });
            // A renewal waits for its period at most, a probe not at all.
            let wait = next.at - refused.at;
            let is_patient = ["list", "watch"].contains(&&*next.verb);
            let least = Duration::from_millis(if is_patient { 2950 } else { 0 });
            assert!(wait >= least, "{} {}: {wait:?}", next.verb, next.resource);
        }
    });
}
