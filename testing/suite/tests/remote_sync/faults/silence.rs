//! Faults without a failed request of a pair, or with a harmless-looking one, are reported.

use dev_apiserver::Action;
use serde_json::{Value, json};
use suite::{
    eventually,
    faults::answer,
    pause,
    sidecar::Sidecar,
    stays,
    sync::{Setting, Stage, WIDGETS, any_content, reshape, words},
    within,
};

use crate::support::{events, has_pairs, is_in_sync, is_ready, of_program, one, pairs};

fn remark(sidecar: &Sidecar, part: &str) -> bool {
    let (code, text) = sidecar.ask("/readyz");
    code == 200 && text.contains(part)
}

/// The watches of widgets that the program opened at the hub.
fn watches(stage: &Stage) -> usize {
    let requests = stage.remote().cluster.server().requests();
    let is = |verb: &str, resource: &str| verb == "watch" && resource == "widgets";
    requests.iter().filter(|request| is(&request.verb, &request.resource)).count()
}

/// Which cluster it is cannot be read, and nothing else fails.
#[test]
fn a_hub_without_identity_is_reported_once() {
    let (stage, sidecar, source, target) = one("unidentified", &WIDGETS, &[]);
    let hub = stage.remote().cluster.faults();
    let broken = of_program(stage.remote(), suite::faults::code(500));
    let rule = hub.add(broken.verb("get").resource("namespaces").name("kube-system"));
    eventually("it is told", || remark(&sidecar, "identity (hub)"));
    assert!(is_ready(&sidecar, &WIDGETS.flag()), "the watches go on");
    stage.remote().relay.cut();
    source.set_number(2);
    eventually("the kind is not ready", || !is_ready(&sidecar, &WIDGETS.flag()));
    assert_eq!((pairs(&sidecar, "hub", "insync"), pairs(&sidecar, "hub", "unknown")), (0.0, 1.0));
    let before = watches(&stage);
    pause(6000);
    let opened = watches(&stage) - before;
    assert!(opened <= 5, "{opened} watches in 6 s");
    assert_eq!(target.number(), Some(1), "nothing is believed of a cluster that is not known");
    assert_eq!(sidecar.warnings("identity cannot be read remote=hub"), 1, "{}", sidecar.log());
    hub.remove(rule);
    target.wait_for_number(2);
    eventually("all is well", || {
        is_ready(&sidecar, &WIDGETS.flag()) && pairs(&sidecar, "hub", "insync") == 1.0
    });
    eventually("the next probe clears the remark", || !remark(&sidecar, "identity (hub)"));
}

/// A webhook, say, denies in the words of a conflict, or of a test that failed in a patch.
#[test]
fn a_lasting_conflict_is_reported_and_recovers() {
    for (code, reason) in [(422, "Invalid"), (409, "Conflict")] {
        let (stage, sidecar, source, target) = one("conflict", &WIDGETS, &[]);
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": code, "reason": reason, "message": "the webhook says no"});
        let no = answer(code, status);
        let own = stage.own.cluster.faults();
        let rule = own.add(of_program(&stage.own, no).verb("patch").resource("widgets"));
        source.set_number(2);
        let state = || pairs(&sidecar, "hub", "failing");
        eventually("it is not in sync", || {
            state() == 1.0 && pairs(&sidecar, "hub", "insync") == 0.0
        });
        assert!(sidecar.ask("/debug/state").1.contains("the webhook says no"));
        sidecar.wait_for("not in sync");
        let told = || events(&source).into_iter().find(|event| event["reason"] == "SyncFailed");
        within(30, "a person is told", told);
        assert!(own.hits(rule) < 20, "{} tries", own.hits(rule));
        own.remove(rule);
        source.set_number(3);
        target.wait_for_number(3);
        has_pairs(&sidecar, "hub", "insync", 1.0);
    }
}

/// A right is taken away while the program runs.
#[test]
fn an_unreadable_kind_is_reported_and_recovers() {
    let (stage, sidecar, source, target) = one("unreadable", &WIDGETS, &[]);
    assert!(is_ready(&sidecar, &WIDGETS.flag()));
    let hub = stage.remote().cluster.faults();
    let rules = ["list", "watch"].map(|verb| {
        hub.add(of_program(stage.remote(), Action::Forbid).verb(verb).resource("widgets"))
    });
    stage.remote().relay.cut();
    source.set_number(2);
    eventually("it is told", || remark(&sidecar, "cannot watch"));
    eventually("the kind is not ready", || !is_ready(&sidecar, &WIDGETS.flag()));
    assert_eq!((pairs(&sidecar, "hub", "insync"), pairs(&sidecar, "hub", "unknown")), (0.0, 1.0));
    assert!(sidecar.ask("/debug/state").1.contains("cannot watch"));
    assert_eq!(target.number(), Some(1));
    rules.into_iter().for_each(|rule| hub.remove(rule));
    within(40, "it is copied", || target.number() == Some(2));
    eventually("all is well", || {
        is_ready(&sidecar, &WIDGETS.flag()) && pairs(&sidecar, "hub", "insync") == 1.0
    });
}

/// A schema that knows these fields of the spec, and whatever else there is.
fn knows(fields: Value) -> Value {
    let mut schema = any_content();
    schema["properties"] = json!({"spec": {"type": "object", "properties": fields}});
    schema
}

#[test]
fn a_dropped_field_is_reported_and_arrives_once_known() {
    let stage = Stage::pull("dropped", Setting::safe(&[&WIDGETS]));
    let number = json!({"type": "integer"});
    reshape(&stage.own.cluster, &WIDGETS, &knows(json!({"size": number})));
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create(&json!({"spec": {"size": 1, "newField": "important"}}));
    let mut sidecar = stage.start_served(&["-resync", "0"]);
    is_in_sync(&source, &target);
    assert_eq!(target.read()["spec"], json!({"size": 1}));
    has_pairs(&sidecar, "hub", "failing", 1.0);
    let told = "dropped .spec.newField";
    sidecar.wait_for(told);
    assert!(!sidecar.log().contains("important"));
    eventually("an Event", || {
        let all = events(&source);
        let text = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
        all.iter().any(|event| text(event).contains(told))
    });
    // Another process tries it once more, and tells it again.
    let early = stage.settled();
    stays("it is not hammered", || stage.writes().len() <= early + 1);
    sidecar.kill();
    let before = stage.settled();
    sidecar = stage.start_served(&["-resync", "1s"]);
    has_pairs(&sidecar, "hub", "failing", 1.0);
    let writes = stage.writes();
    assert!(words(&writes[before..]).iter().all(|it| it.starts_with("local patch widgets one")));
    assert!(words(&writes[before..]).len() < 8, "once in each resync: {:?}", words(&writes));
    let fields = json!({"size": number, "newField": {"type": "string"}});
    reshape(&stage.own.cluster, &WIDGETS, &knows(fields));
    target.wait("the field", |it| it["spec"]["newField"] == "important");
    has_pairs(&sidecar, "hub", "insync", 1.0);
    stage.settled();
}
