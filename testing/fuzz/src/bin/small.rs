//! Small texts from other programs, each given to every parser of such texts: times and durations, uids,
//! kinds, selectors, names; and, in JSON, a Lease and a pod.
//!
//! An accepted text survives a round trip. A renewed Lease is newer than before.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

fuzz::modules! {
    annotations = "../../../../bins/remote-sync/src/model/annotations.rs",
    discovery = "../../../../bins/remote-sync/src/model/discovery.rs",
    pod = "../../../../bins/addon-lease-controller/src/pod.rs",
    selector = "../../../../bins/remote-sync/src/settings/selector.rs",
}

use std::time::{Duration, SystemTime};

use fuzz::{HUGE, bounded, expand};
use serde_json::Value;
use shared::{
    client::USUAL_OBJECT,
    flags::{self, Flag, FlagKind, Flags, Invocation},
    json, lease,
    resource::{valid_key, valid_label, valid_name, valid_value},
    time::{micro_time, parse_micro_time},
};

use crate::{
    annotations::{Origin, Uid},
    discovery::ResourceArg,
    pod::{PodReadiness, readiness},
    selector::selector,
};

const OVERHEAD: usize = 64 << 10;
const MINUTE: Duration = Duration::from_secs(60);

fuzz::target!(run);

fn run(data: &[u8]) {
    let text = expand(data, HUGE);
    let length = text.len();
    let Ok(text) = str::from_utf8(&text) else { return };
    // The accepted text, partly in parts; an error quotes it.
    bounded(length, 40 * length + OVERHEAD, || {
        check_texts(text);
        check_flags(text);
    });
    if let Ok(object) = json::parse(text.as_bytes(), USUAL_OBJECT) {
        bounded(length, 2 * json::cost(&object) + 16 * length + OVERHEAD, || {
            check_objects(&object)
        });
    }
}

fn check_texts(text: &str) {
    if let Some(time) = parse_micro_time(text) {
        let written = micro_time(time);
        // Fractions of a microsecond are dropped.
        assert_eq!(parse_micro_time(&written).map(micro_time), Some(written));
    }
    if let Some(uid) = Uid::parse(text) {
        assert!(uid.to_string().eq_ignore_ascii_case(text));
    }
    if let Some(origin) = Origin::parse(text) {
        assert_eq!(Origin::parse(&origin.to_string()), Some(origin));
    }
    if let Ok(wanted) = ResourceArg::parse(text) {
        assert!(valid_label(&wanted.plural) && ResourceArg::parse(&wanted.to_string()).is_ok());
    }
    assert!(!valid_label(text) || valid_name(text) && valid_value(text) && valid_key(text));
    assert!(!valid_name(text) || !text.contains(['/', '?', ' ']));
}

fn check_flags(text: &str) {
    if let Some(flags) = parse_flag(FlagKind::Duration, text) {
        let duration = flags.duration("x");
        assert!(
            flags.period("x").is_ok_and(|period| period == duration && !period.is_zero())
                || duration.is_zero()
                || duration > MINUTE
        );
    }
    if let Some(flags) = parse_flag(FlagKind::Seconds, text) {
        drop(flags.period("x"));
    }
    if let Some(flags) = parse_flag(FlagKind::String, text)
        && let Ok(Some(selected)) = selector(&flags, "x")
    {
        assert_eq!(selected, text.trim());
    }
}

/// Parses the command line `-x=text`; None if it is rejected.
fn parse_flag(kind: FlagKind, text: &str) -> Option<Flags> {
    let table =
        [&flags::common("0")[..], &[Flag { name: "x", kind, default: "", help: "" }]].concat();
    match flags::parse("fuzz", &table, [format!("-x={text}").into()]) {
        Ok(Invocation::Run(flags)) => Some(flags),
        Ok(Invocation::Print(_)) => panic!("-help was not given"),
        Err(why) => {
            assert!(why.lines().count() <= 3, "{why}");
            None
        }
    }
}

fn check_objects(object: &Value) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    if object.is_object() {
        for own in [true, false] {
            let before = renew_time(object).unwrap_or(SystemTime::UNIX_EPOCH);
            let renewed = renew_time(&lease::renewed(object, MINUTE, now, own)).expect("a time");
            assert!(renewed >= now && renewed <= now + MINUTE);
            // If a clock was set back, the current time wins.
            assert!(renewed > before || before >= now + MINUTE);
        }
    }
    for own in [None, Some("x")] {
        if let PodReadiness::NotReady(reason) = readiness(object, own) {
            assert!(!reason.is_empty());
        }
    }
}

fn renew_time(lease: &Value) -> Option<SystemTime> {
    parse_micro_time(lease["spec"]["renewTime"].as_str()?)
}
