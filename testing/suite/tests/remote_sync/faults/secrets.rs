//! Secrets whose upload meets obstacles.

use dev_apiserver::Action;
use serde_json::json;
use suite::{
    eventually, pause,
    sync::{Setting, Stage, WIDGETS},
};

use crate::{
    secrets::{bare, foreign, says_refused, wait_for_value},
    support::{is_in_sync, is_ready, of_program},
};

#[test]
fn secrets_that_may_not_be_listed_hold_up_nothing_else() {
    let setting = Setting::safe(&[&WIDGETS]).secrets(&["token", "extra"]);
    let stage = Stage::pull("secrets-unlisted", setting);
    let (source, target) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    let faults = stage.own.cluster.faults();
    let forbidden = of_program(&stage.own, Action::Forbid).verb("list").resource("secrets");
    let rule = faults.add(forbidden.name("extra"));
    let sidecar = stage.start_served(&[]);
    is_in_sync(&source, &target);
    for name in ["token", "extra"] {
        stage.source_secret(name).create(&json!({"type": "Opaque"}));
        stage.create_target_secret(name, name, Some(&target));
    }
    wait_for_value(&stage.source_secret("token"), "token");
    assert!(stage.source_secret("extra").read()["data"].is_null());
    let remarks = sidecar.ask("/readyz").1;
    assert!(remarks.contains("secrets/extra (hub): "), "{remarks}");
    assert!(!remarks.contains("secrets/token") && !remarks.contains("widgets"), "{remarks}");
    let ready = |name: &str| is_ready(&sidecar, &format!("secrets/{name}"));
    assert_eq!((ready("token"), ready("extra")), (true, false));
    let (code, log) = stage.run(&["-once"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("secrets/extra (hub): "), "{log}");
    faults.remove(rule);
    wait_for_value(&stage.source_secret("extra"), "extra");
    eventually("nothing is wrong", || ready("extra"));
}

/// Between the read and the write somebody is faster.
#[test]
fn a_secret_made_in_between_is_not_replaced() {
    let (stage, sidecar, _, target) = bare("race", &[]);
    let hub = stage.remote().cluster.faults();
    let late = of_program(stage.remote(), Action::ApplyThenDelay { milliseconds: 1500 });
    let late = late.verb("get").resource("secrets").name("token-remote-rs");
    let rule = hub.add(late.times(1));
    stage.create_target_secret("token", "data1", Some(&target));
    eventually("it is read", || hub.hits(rule) > 0);
    // The answer, that there is none, is under way.
    pause(300);
    let (secret, before) = foreign(&stage, "theirs");
    says_refused(&sidecar, &secret.name);
    assert_eq!(secret.read(), before);
}
