//! Invalid answers: F6, F7, F14 to F16.

use dev_apiserver::Action;
use suite::cluster::Cluster;

use crate::strike::{answered, answered_once, strike};

#[test]
fn f6_answers_that_are_cut_off_or_are_none() {
    strike("broken", |subject| {
        for action in [Action::Truncate, Action::Garbage, Action::Drop] {
            answered_once(subject, &action);
        }
    });
}

#[test]
fn f7_huge_headers_and_bodies() {
    strike("huge", |subject| {
        let before = subject.process.memory("VmHWM");
        for action in
            [Action::HugeHeaders { bytes: 64 << 10 }, Action::HugeBody { bytes: 100 << 20 }]
        {
            answered_once(subject, &action);
        }
        let more = subject.process.memory("VmHWM") - before;
        assert!(more < 4096, "{more} KiB more than {before}");
    });
}

#[test]
fn f14_html_pages_of_a_balancer() {
    strike("html", |subject| {
        for code in [500, 502, 503, 504] {
            let body = Some("<html>upstream connect error</html>".to_owned());
            answered_once(subject, &Action::Answer { code, body, retry_after: None });
        }
        // The health of the local cluster is reported to the hub in the words of the registration agent.
        let log = subject.process.log();
        let mut lines = log.lines().filter(|line| !line.contains("The kube-apiserver is not ok"));
        assert!(!lines.any(|line| line.contains("<html")), "{log}");
    });
}

#[test]
fn f15_something_else_than_was_asked_for() {
    strike("odd", |subject| {
        let cut = Action::WatchCut { events: 0 };
        for action in [Action::NotJson, Action::WrongKind, Action::NullSpec, cut] {
            answered_once(subject, &action);
        }
    });
}

#[test]
fn f16_a_redirect_to_another_host() {
    strike("redirect", |subject| {
        let other = Cluster::embedded("other");
        let before = other.server().counters();
        let location = format!("https://{}/", other.address);
        answered(subject, Action::Redirect { location });
        assert_eq!(other.server().counters(), before, "nobody called");
    });
}
