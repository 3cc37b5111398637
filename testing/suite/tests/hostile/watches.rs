//! Watches that send odd events or none, or cannot be opened.

use dev_apiserver::{Action, Rule};
use serde_json::json;
use suite::{pause, within};

use crate::subjects::Lease;

/// A bookmark with this version.
fn bookmark(kind: &str, version: &str) -> Action {
    let bytes = json!({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": "v1",
        "metadata": {"resourceVersion": version}}});
    Action::WatchSays { bytes: format!("{bytes}\n") }
}

/// Versions that no server counts with.
fn versions() -> [String; 6] {
    let long = "9".repeat(66_000);
    ["zzz".into(), String::new(), "-1".into(), "1.5".into(), "7&watch=false".into(), long]
}

#[test]
fn invalid_resource_version_does_not_end_a_watch() {
    let subject = Lease::new("watch-version");
    let managed = subject.scene.managed.server();
    let sidecar = subject.start();
    subject.renews(&sidecar);
    for version in versions() {
        let says = managed
            .faults()
            .add(Rule::new(bookmark("Pod", &version)).verb("watch").resource("pods").times(1));
        managed.restart();
        within(40, "it is said", || managed.faults().hits(says) > 0);
        managed.restart();
        // What happens from now on is seen.
        subject.scene.delete_pod();
        within(60, &format!("the end of the pod is seen\n{}", sidecar.log()), || {
            sidecar.ask("/readyz").1.contains("pod")
        });
        subject.put_pod(&json!({}));
        subject.renews(&sidecar);
    }
}

/// Events whose words are as long as an answer may be.
#[test]
fn long_strings_in_watch_events_are_skipped() {
    let subject = Lease::new("watch-words");
    let managed = subject.scene.managed.server();
    let sidecar = subject.start();
    subject.renews(&sidecar);
    let long = "x".repeat(4 << 20);
    for bytes in [
        format!("{{\"type\":\"{long}\"}}\n"),
        format!("{{\"{long}\":1}}\n"),
        format!("{{\"object\":\"{}\",\"type\":\"{long}\"}}\n", &long[..1_300_000]),
    ] {
        let says = Action::WatchSays { bytes };
        let rule = managed.faults().add(Rule::new(says).verb("watch").times(2));
        managed.restart();
        within(60, "it is said", || managed.faults().hits(rule) == 2);
        subject.renews(&sidecar);
    }
    subject.container.fits(&sidecar);
}

/// Watches that a server refuses in their own stream, or that bring another object: lists go on, at a bounded
/// pace.
#[test]
fn errors_in_watches_are_retried_slowly_while_lists_go_on() {
    let error = |code: u16| json!({"type": "ERROR", "object": {"kind": "Status", "code": code}});
    let other = json!({"type": "ADDED", "object": {"kind": "Pod", "metadata": {"name": "other",
        "namespace": "other", "uid": "u", "resourceVersion": "9"}}});
    for (name, event) in [("500", error(500)), ("410", error(410)), ("other", other)] {
        let subject = Lease::new("watch-error");
        let managed = subject.scene.managed.server();
        let says = Action::WatchSays { bytes: format!("{event}\n") };
        let rule = managed.faults().add(Rule::new(says).verb("watch").resource("pods"));
        let sidecar = subject.start();
        within(20, "it is said", || managed.faults().hits(rule) > 0);
        managed.clear_requests();
        pause(10_000);
        let asked = managed.requests();
        let asked = asked.iter().filter(|it| it.resource == "pods").count();
        assert!(asked <= 16, "{name}: {asked} requests in 10 s");
        assert!(sidecar.log().lines().count() < 60, "{}", sidecar.log());
        subject.renews(&sidecar);
        subject.scene.delete_pod();
        within(60, &format!("{name}: its end is seen\n{}", sidecar.log()), || {
            sidecar.ask("/readyz").1.contains("pod")
        });
    }
}
