//! `kubeconfig NUL tls.crt NUL tls.key`: the values of a Secret; valid ones replace omitted values.
//!
//! An error is one line, without key, token or password. YAML and the same config as JSON give the same result. An
//! accepted kubeconfig is usable and passes the check, and its hub survives a round trip. Any input stays within the
//! memory budget of a kubeconfig.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

use std::time::Duration;

use apiclient::client::{Client, Reload, Timeouts};
use fuzz::{CERTIFICATE, HUGE, KEY, assert_one_line, bounded, expand, kubeconfig_bound, parts};
use kubeconfig::{
    self, Hub,
    config::{ClusterConfig, Result, Trust},
    secret::Data,
};
use serde_json::Value;

/// The password or token in the seeds.
const SECRET: &str = "hunter2";
/// A token in the Secret, outside the kubeconfig.
const TOKEN: &str = "secret of its own";
/// For TLS, keys, and the YAML parser's state per level of nesting.
const OVERHEAD: usize = 256 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let text = expand(data, HUGE);
    let [config, certificate, key] = parts(&text);
    let config = config.unwrap_or_default();
    let mut keys: Data = [
        ("kubeconfig", config),
        ("tls.crt", certificate.unwrap_or(CERTIFICATE)),
        ("tls.key", key.unwrap_or(KEY)),
        ("ca.crt", CERTIFICATE),
        ("token", TOKEN.as_bytes()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_vec().into()))
    .into();
    // The budget; a partial text, with room to grow; its parts and those of the keys, decoded and parsed.
    let cost = kubeconfig_bound(config);
    let limit = cost + 6 * text.len() + OVERHEAD;
    // Work that costs memory also takes time.
    let length = text.len() + cost / 16;
    let parsed = bounded(length, limit, || kubeconfig::parse(config));
    let access = bounded(length, limit, || kubeconfig::from_secret("ns/x", &keys));
    let checked = bounded(length, limit, || kubeconfig::check_secret("ns/x", &keys));
    for error in [access.as_ref().err(), checked.as_ref().err()].into_iter().flatten() {
        check_error(error.message(), config, parsed.as_ref().ok());
    }
    match &parsed {
        Err(why) => {
            assert_one_line(why, 100);
            assert!(access.is_err() && checked.is_err());
        }
        // YAML and the same value as JSON give the same result. Only a map is a kubeconfig.
        Ok(value) if value.is_object() => {
            let json = value.to_string().into_bytes();
            if is_yaml(value) {
                let again = kubeconfig::parse(&json);
                assert!(again.as_ref() == Ok(value), "not the same as JSON");
                keys.insert("kubeconfig".to_owned(), json.into());
                let again = kubeconfig::from_secret("ns/x", &keys);
                assert!(is_same(&access, &again), "not the same as JSON");
                assert_eq!(checked, kubeconfig::check_secret("ns/x", &keys));
            }
        }
        Ok(_) => assert!(access.is_err() && checked.is_err()),
    }
    if let Ok(access) = access {
        check_hub_round_trip(&access, &keys);
        check_usable(access, checked);
    }
}

/// Returns whether the value's JSON is valid YAML, which allows no control characters and no keys above 1 KiB.
fn is_yaml(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().all(|(key, value)| {
            let json = Value::from(key.as_str()).to_string();
            json.len() <= 1 << 10 && !json.contains(char::is_control) && is_yaml(value)
        }),
        Value::Array(items) => items.iter().all(is_yaml),
        Value::String(text) => !Value::from(text.as_str()).to_string().contains(char::is_control),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Checks that a kubeconfig written for a hub leads to the same hub.
fn check_hub_round_trip(access: &ClusterConfig, keys: &Data) {
    if !access.server.starts_with("https://") {
        return;
    }
    // A client accepts a cluster without a name; a `Hub` does not.
    let hub = match Hub::of_secret("ns/x", keys) {
        Ok(hub) => hub,
        Err(error) => return assert_one_line(error.message(), 1000),
    };
    assert!(!hub.name.is_empty());
    let text = hub.kubeconfig().into_bytes();
    let copy = Data::from([("kubeconfig".to_owned(), text.into())]);
    let copy = Hub::of_secret("ns/x", &copy).expect("a kubeconfig that we wrote");
    assert_eq!(hub.differs_from(&copy), None);
    assert_eq!((&hub.server_name, hub.insecure), (&copy.server_name, copy.insecure));
}

/// Compares in code, because `assert_eq!` would print credentials that differ.
fn is_same(one: &Result<ClusterConfig>, other: &Result<ClusterConfig>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one == other,
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

/// Checks that an error is one line without credentials.
fn check_error(text: &str, config: &[u8], parsed: Option<&Value>) {
    assert_one_line(text, 10 * config.len() + 1000);
    let config = String::from_utf8_lossy(config);
    let lines = KEY.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    // libFuzzer guesses strings that it is compared with, and may use one as a name.
    for other in lines.chain([TOKEN]).filter(|other| other.len() > 9 && !config.contains(other)) {
        assert!(!text.contains(other), "quotes another key: {text:?}");
    }
    // Only if it occurs once: other occurrences may be names.
    if config.matches(SECRET).count() == 1 && parsed.is_none_or(is_credential) {
        assert!(!text.contains(SECRET), "quotes a credential: {text:?}");
    }
}

fn is_credential(config: &Value) -> bool {
    let holds = |list: &str, kind: &str, fields: &[&str]| {
        let items = config[list].as_array().into_iter().flatten();
        items
            .flat_map(|item| fields.iter().map(|field| &item[kind][*field]))
            .any(|value| value.as_str().is_some_and(|text| text.contains(SECRET)))
    };
    holds("users", "user", &["token", "password", "client-key-data"])
        || holds("clusters", "cluster", &["server", "proxy-url"])
}

/// Checks that an accepted kubeconfig makes a client, or is rejected with a proper message.
fn check_usable(access: ClusterConfig, checked: Result<()>) {
    let secure = access.server.starts_with("https://");
    assert!(secure || access.server.starts_with("http://"), "{}", access.server);
    assert!(!access.server.contains(|c: char| c.is_control() || c.is_whitespace()));
    assert!(!secure || checked.is_ok(), "{checked:?}");
    assert!(!format!("{access:?}").contains("PRIVATE KEY"));
    // The system's roots are files, which this target does not read.
    if secure && !matches!(access.trust, Trust::Bundle(_)) {
        return;
    }
    let timing = Timeouts::with_request(Duration::from_secs(1));
    if let Err(error) = Client::new("the hub", access, Reload::Never, timing) {
        assert_one_line(error.message(), 10_000);
    }
}
