//! Rejected writes and broken watches.

use std::time::Duration;

use dev_apiserver::{Action, Options};
use serde_json::{Value, json};
use suite::{
    cluster::Cluster,
    eventually,
    faults::code,
    needs::{Need, needs},
    stays,
    sync::{Kind, SETTINGS, Setting, Stage, WIDGETS, words},
    within,
};

use crate::support::{immutable, is_in_sync, of_program, one};

// --- rejected writes ---

/// A connection that is made anew is a reason to try again, and on a busy machine a probe may fail.
const UNDOUBTED: [&str; 2] = ["-timeout", "40s"];

/// Someone changes the copy while it is being written.
#[test]
fn a_real_conflict_is_won_in_the_end() {
    if !needs(Need::Embedded, "a write can be held") {
        return;
    }
    let (stage, _sidecar, source, target) = one("race", &WIDGETS, &[]);
    let own = stage.own.cluster.faults();
    let delay = of_program(&stage.own, Action::Delay { milliseconds: 500 });
    let rule = own.add(delay.verb("patch").resource("widgets").times(1));
    source.set_number(2);
    eventually("it is being written", || (own.hits(rule) > 0).then_some(()));
    target.merge(&json!({"metadata": {"labels": {"mine": "1"}}}));
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    assert_eq!(target.read()["metadata"]["labels"]["mine"], "1");
}

#[test]
fn an_immutable_copy_is_neither_hammered_nor_recreated() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    let (stage, sidecar, source, target) = one("never", &WIDGETS, &UNDOUBTED);
    let (uid, own) = (target.uid(), stage.own.cluster.faults());
    let rule = own.add(of_program(&stage.own, immutable()).verb("patch").resource("widgets"));
    source.set_number(2);
    eventually("it is refused", || (own.hits(rule) > 0).then_some(()));
    stays("it is tried once in half a minute", || own.hits(rule) == 1);
    assert_eq!((target.uid(), target.number()), (uid.clone(), Some(1)));
    sidecar.wait_for("immutable");
    let writes = stage.writes();
    assert!(!words(&writes).iter().any(|it| it.contains("delete")), "{:?}", words(&writes));
    // Another change is another try.
    own.remove(rule);
    source.set_number(3);
    target.wait_for_number(3);
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), uid);
}

/// A webhook that fails may ask for an hour; it speaks of its object alone.
#[test]
fn an_object_told_to_wait_an_hour_holds_up_no_other() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    let (stage, sidecar, source, target) = one("hour", &WIDGETS, &[]);
    let status = json!({"kind": "Status", "code": 500, "reason": "InternalError",
        "message": "admission webhook \"x\" denied the request: later"});
    let later = Action::Answer {
        code: 500,
        body: Some(status.to_string()),
        retry_after: Some("3600".into()),
    };
    let own = stage.own.cluster.faults();
    let rule = own.add(of_program(&stage.own, later).verb("patch").name(&target.name));
    source.set_number(2);
    eventually("it is refused", || (own.hits(rule) > 0).then_some(()));
    for index in 0..3 {
        let name = format!("other-{index}");
        let (source, target) = stage.pair(&WIDGETS, &name);
        source.create_number(1);
        is_in_sync(&source, &target);
    }
    assert!(own.hits(rule) <= 2, "{} tries", own.hits(rule));
    assert_eq!(target.number(), Some(1));
    assert!(sidecar.count("later") > 0, "{}", sidecar.log());
}

/// A server that is busy for a moment is not asked in a hot loop, and all comes right.
#[test]
fn a_busy_server_is_waited_for() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    for answer in [
        code(503),
        Action::Answer { code: 429, body: None, retry_after: Some("1".into()) },
        Action::Drop,
        Action::ApplyThenDrop,
        Action::Truncate,
        Action::NotJson,
    ] {
        let (stage, source, target) = Stage::with_widget("busy");
        for side in stage.sides() {
            for verb in ["patch", "create"] {
                side.cluster.faults().add(of_program(side, answer.clone()).verb(verb).times(2));
            }
        }
        let _sidecar = stage.start(&[]);
        is_in_sync(&source, &target);
        stage.settled();
        assert!(stage.writes().len() < 25, "{answer:?}: {:?}", words(&stage.writes()));
        assert_eq!(target.number(), Some(1));
    }
}

// --- lists and watches ---

#[test]
fn a_watch_whose_version_is_too_old_begins_anew() {
    if !needs(Need::Embedded, "its history can be dropped") {
        return;
    }
    let (stage, _sidecar, source, target) = one("too-old", &WIDGETS, &[]);
    let uid = target.uid();
    for round in 2..5 {
        for side in stage.sides() {
            side.cluster.server().compact();
            side.relay.cut();
        }
        source.set_number(round);
        target.wait_for_number(round);
        is_in_sync(&source, &target);
    }
    // What went while nobody watched is missed by none.
    stage.remote().relay.set(suite::relay::Way::Closed);
    let gone = stage.source(&WIDGETS, "another");
    gone.create_number(1);
    source.delete();
    stage.remote().cluster.server().compact();
    stage.remote().relay.set(suite::relay::Way::Open);
    source.wait_until_gone();
    stage.target(&WIDGETS, "another").wait_for_number(1);
    assert_ne!(stage.target(&WIDGETS, "another").uid(), uid);
}

#[test]
fn copies_go_on_after_broken_watches() {
    if !needs(Need::Embedded, "a watch can break") {
        return;
    }
    let (stage, _sidecar, source, target) = one("cut", &WIDGETS, &[]);
    for (round, action) in [
        Action::WatchCut { events: 0 },
        Action::WatchCut { events: 1 },
        Action::NotJson,
        Action::Garbage,
        code(410),
        code(500),
        Action::Answer { code: 429, body: None, retry_after: Some("1".into()) },
    ]
    .into_iter()
    .enumerate()
    {
        for side in stage.sides() {
            side.cluster.faults().add(of_program(side, action.clone()).verb("watch").times(2));
            side.relay.cut();
        }
        let number = round as u64 + 2;
        source.set_number(number);
        target.wait_for_number(number);
        target.set_health(number);
        source.wait_for_health(number);
    }
}

/// So many objects on each side of a hub, written without a request.
fn fill(stage: &Stage, kind: &Kind, count: u64) {
    let server = stage.remote().cluster.server();
    for number in 0..count {
        let mut object = kind.content(number);
        object["apiVersion"] = json!(kind.resource.api_version());
        object["kind"] = json!(kind.resource.kind);
        let name = format!("w{number}-remote-rs");
        object["metadata"] = json!({"name": name, "namespace": stage.namespace});
        server.put(object);
    }
}

#[test]
fn a_list_whose_next_page_expired_begins_anew() {
    if !needs(Need::Embedded, "a page can be refused") {
        return;
    }
    let hub = Cluster::embedded("hub");
    let options = Options { bookmarks: Duration::from_secs(1), ..Options::default() };
    let own = Cluster::embedded_with("managed", options);
    let stage = Stage::between(own, vec![("hub", hub)], "pages", Setting::safe(&[&SETTINGS]));
    fill(&stage, &SETTINGS, 1200);
    let remote = stage.remote();
    // The first page passes, the second is too old by now.
    remote.cluster.faults().add(
        of_program(remote, Action::HugeHeaders { bytes: 1 })
            .verb("list")
            .resource("plainsettings")
            .times(1),
    );
    let expired = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "The provided continue parameter is too old", "reason": "Expired", "code": 410}"#;
    let gone = Action::Answer { code: 410, body: Some(expired.into()), retry_after: None };
    let rule = of_program(remote, gone).verb("list").resource("plainsettings").times(1);
    let rule = remote.cluster.faults().add(rule);
    let _sidecar = stage.start(&["-qps", "0"]);
    let namespace = format!("{}-local-ns", stage.namespace);
    let count = || {
        stage.own.cluster.server().list("sync.example.com/v1", "plainsettings", &namespace).len()
    };
    within(60, "all 1200", || count() >= 1200);
    assert_eq!(remote.cluster.faults().hits(rule), 1);
    for number in [0, 499, 500, 501, 1199] {
        let copy = stage.target(&SETTINGS, &format!("w{number}"));
        assert_eq!(copy.number(), Some(number));
    }
}

/// A server, or a cache before it, that knows no pages: all 24 MB come in one answer, and an object at a time is
/// enough to read them.
#[test]
fn a_list_in_one_answer_is_never_whole_in_memory() {
    if !needs(Need::Embedded, "an answer can be made up") {
        return;
    }
    let stage = Stage::pull("whole", Setting::safe(&[&SETTINGS]));
    let (source, target) = stage.pair(&SETTINGS, "one");
    source.create_number(1);
    let remote = stage.remote();
    let object = source.get().expect("the object");
    let mut items: Vec<_> = (0..800).map(|number| far(&object, number)).collect();
    items.push(object.clone());
    let version = &object["metadata"]["resourceVersion"];
    let body = json!({"kind": "PlainSettingList", "apiVersion": object["apiVersion"],
        "metadata": {"resourceVersion": version}, "items": items})
    .to_string();
    assert!(body.len() > 24 << 20);
    let whole = Action::Answer { code: 200, body: Some(body), retry_after: None };
    let whole = of_program(remote, whole).verb("list").resource("plainsettings").times(1);
    let rule = remote.cluster.faults().add(whole);
    let sidecar = stage.start(&[]);
    is_in_sync(&source, &target);
    assert_eq!(remote.cluster.faults().hits(rule), 1);
    let most = sidecar.memory("VmHWM");
    assert!(most < 20 << 10, "{most} KiB");
}

/// A large object of this kind in a namespace that is not looked at, which a list brings before the others.
fn far(object: &Value, number: u32) -> Value {
    let mut far = object.clone();
    far["metadata"]["namespace"] = "a-far-one".into();
    far["metadata"]["name"] = format!("w{number}").into();
    far["metadata"]["uid"] = format!("0d6ff0b4-3b39-4b5b-9f5c-{number:012}").into();
    far["data"]["pad"] = "x".repeat(32 << 10).into();
    far
}
