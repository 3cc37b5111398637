//! Answers that are broken, huge, or of another kind than requested.

use dev_apiserver::Action;
use suite::faults::answer;

use crate::strike::{Subject, answered_once, strike};

#[test]
fn broken_answers_are_survived() {
    strike("broken", |subject| {
        let cut = Action::WatchCut { events: 0 };
        let broken = [Action::Truncate, Action::Garbage, Action::Drop, cut];
        let of_another_kind = [Action::NotJson, Action::WrongKind, Action::NullSpec];
        for action in broken.into_iter().chain(of_another_kind) {
            answered_once(subject, &action);
        }
    });
}

#[test]
fn huge_headers_and_bodies_take_no_memory() {
    strike("huge", huge_answers);
}

pub(crate) fn huge_answers(subject: &Subject) {
    let before = subject.process.memory("VmHWM");
    for action in [Action::HugeHeaders { bytes: 64 << 10 }, Action::HugeBody { bytes: 100 << 20 }] {
        answered_once(subject, &action);
    }
    let more = subject.process.memory("VmHWM") - before;
    assert!(more < 4096, "{more} KiB more than {before}");
}

#[test]
fn html_of_a_load_balancer_is_not_logged() {
    strike("html", |subject| {
        for code in [500, 502, 503, 504] {
            answered_once(subject, &answer(code, "<html>upstream connect error</html>"));
        }
        // The health of the local cluster is reported to the hub in the words of the registration agent.
        let log = subject.process.log();
        let mut lines = log.lines().filter(|line| !line.contains("The kube-apiserver is not ok"));
        assert!(!lines.any(|line| line.contains("<html")), "{log}");
    });
}
