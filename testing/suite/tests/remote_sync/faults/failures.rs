//! Writes that fail in whole or in part: reported, retried with backoff, and repaired by the next attempt.

use serde_json::{Value, json};
use suite::{
    eventually,
    faults::code,
    pause, stays,
    sync::{Setting, Stage, WIDGETS, any_content, reshape, words},
};

use crate::support::{
    events, has_pairs, is_in_sync, is_ready, is_told, of_program, one, pairs, refusal,
};

/// A new connection is a reason to try again, and on a busy machine a probe may fail.
const UNDOUBTED: [&str; 2] = ["-timeout", "40s"];

#[test]
fn an_immutable_copy_is_neither_hammered_nor_recreated() {
    let (stage, sidecar, source, target) = one("never", &UNDOUBTED);
    let (uid, own) = (target.uid(), stage.own.cluster.faults());
    let message = "Invalid value: field is immutable";
    let causes = json!([{"reason": "FieldValueInvalid", "message": message}]);
    let immutable = of_program(&stage.own, refusal(422, "Invalid", message, &causes));
    let rule = own.add(immutable.verb("patch").resource("widgets"));
    source.set_number(2);
    eventually("it is refused", || own.hits(rule) > 0);
    stays("it is tried once in half a minute", || own.hits(rule) == 1);
    assert_eq!((target.uid(), target.number()), (uid.clone(), Some(1)));
    sidecar.wait_for("immutable");
    let event = is_told(&source, "SyncFailed", "immutable");
    assert_eq!(
        (&event["type"], &event["involvedObject"]["uid"]),
        (&"Warning".into(), &source.uid())
    );
    stays("the source has a single event", || events(&source).len() == 1);
    let writes = stage.writes();
    assert!(!words(&writes).iter().any(|it| it.contains("delete")), "{:?}", words(&writes));
    // Another change is another try.
    own.remove(rule);
    source.set_number(3);
    target.wait_for_number(3);
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), uid);
}

/// A webhook, say, denies in the words of a conflict, or of a test that failed in a patch.
#[test]
fn a_lasting_conflict_is_reported_and_recovers() {
    for (code, reason) in [(422, "Invalid"), (409, "Conflict")] {
        let (stage, sidecar, source, target) = one("conflict", &[]);
        let own = stage.own.cluster.faults();
        let no = of_program(&stage.own, refusal(code, reason, "the webhook says no", &Value::Null));
        let rule = own.add(no.verb("patch").resource("widgets"));
        source.set_number(2);
        has_pairs(&sidecar, "hub", "failing", 1.0);
        assert!(sidecar.ask("/debug/state").1.contains("the webhook says no"));
        sidecar.wait_for("not in sync");
        is_told(&source, "SyncFailed", "");
        assert!(own.hits(rule) < 20, "{} tries", own.hits(rule));
        own.remove(rule);
        source.set_number(3);
        target.wait_for_number(3);
        has_pairs(&sidecar, "hub", "insync", 1.0);
    }
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
        events(&source).iter().any(|event| event["message"].to_string().contains(told))
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
}

/// Which cluster it is cannot be read, and nothing else fails.
#[test]
fn a_hub_without_identity_is_reported_once() {
    let (stage, sidecar, source, target) = one("unidentified", &[]);
    let hub = stage.remote().cluster.faults();
    let broken = of_program(stage.remote(), code(500)).verb("get").resource("namespaces");
    let rule = hub.add(broken.name("kube-system"));
    let is_remarked = || {
        let (code, text) = sidecar.ask("/readyz");
        code == 200 && text.contains("identity (hub)")
    };
    eventually("/readyz names the hub's identity", is_remarked);
    assert!(is_ready(&sidecar, &WIDGETS.flag()), "the watches go on");
    stage.remote().relay.cut();
    source.set_number(2);
    eventually("the kind is not ready", || !is_ready(&sidecar, &WIDGETS.flag()));
    assert_eq!((pairs(&sidecar, "hub", "insync"), pairs(&sidecar, "hub", "unknown")), (0.0, 1.0));
    let before = stage.asked(stage.remote(), "watch", "widgets");
    pause(6000);
    let opened = stage.asked(stage.remote(), "watch", "widgets") - before;
    assert!(opened <= 5, "{opened} watches in 6 s");
    assert_eq!(target.number(), Some(1), "nothing is believed of a cluster that is not known");
    assert_eq!(sidecar.warnings("identity cannot be read remote=hub"), 1, "{}", sidecar.log());
    hub.remove(rule);
    target.wait_for_number(2);
    has_pairs(&sidecar, "hub", "insync", 1.0);
    eventually("the kind is ready", || is_ready(&sidecar, &WIDGETS.flag()));
    eventually("the next probe clears the remark", || !is_remarked());
}
