//! Rejections: 401 and 403.

use dev_apiserver::Action;
use suite::faults::code;

use crate::strike::{answered, answered_once, strike};

#[test]
fn single_401_is_an_ordinary_failure() {
    strike("once", |subject| answered_once(subject, &code(401)));
}

#[test]
fn lasting_401_is_retried_at_a_bounded_rate() {
    strike("unknown", |subject| answered(subject, code(401)));
}

#[test]
fn lasting_403_names_the_request() {
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
