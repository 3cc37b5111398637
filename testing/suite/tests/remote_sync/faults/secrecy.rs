//! A server's answer that repeats a Secret is not quoted.

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::Action;
use serde_json::json;
use suite::{
    eventually, pause,
    sync::{Setting, WIDGETS},
};

use crate::{
    smoke::secrecy::{VALUE, says_nothing},
    support::{events, in_sync, of_program, refusal},
};

/// A refusal that repeats the value, plain and encoded, as validation and webhooks do.
fn repeating(code: u16) -> Action {
    let (reason, before) = match code {
        422 => ("Invalid", "Secret is invalid: data[data]: Invalid value"),
        _ => ("Forbidden", "admission webhook \"check.example.com\" denied the request"),
    };
    let message = format!("{before}: {VALUE:?} ({})", BASE64_STANDARD.encode(VALUE));
    refusal(code, reason, &message, &json!([{"message": message}]))
}

#[test]
fn a_server_that_repeats_what_it_was_sent_is_not_quoted() {
    for code in [422, 403, 500] {
        let setting = Setting::safe(&[&WIDGETS]).secrets(&["token"]);
        let (stage, sidecar, source, target) = in_sync("secrecy-echo", setting, &[]);
        stage.source_secret("token").create(&json!({"type": "Opaque"}));
        let hub = stage.remote().cluster.faults();
        let refused = of_program(stage.remote(), repeating(code)).verb("update");
        let rule = hub.add(refused.resource("secrets"));
        stage.create_target_secret("token", VALUE, Some(&target));
        eventually("it was refused", || hub.hits(rule) > 0);
        eventually("it is told of", || sidecar.count("update secrets") > 0);
        pause(1000);
        says_nothing(&sidecar, &[VALUE]);
        // What may work soon is nothing for people.
        if code != 500 {
            eventually("an Event tells it", || !events(&source).is_empty());
        }
        let told = format!("{:?}", events(&source));
        assert!(!told.contains(VALUE) && !told.contains(&BASE64_STANDARD.encode(VALUE)), "{told}");
        assert_eq!(events(&source).is_empty(), code == 500, "{}", sidecar.log());
    }
}
