//! `kubeconfig NUL tls.crt NUL tls.key`, of a Secret; a key that is not there is a good one.
//!
//! An error is one line and quotes neither key nor token nor password. YAML means what the same as JSON means.
//! What is accepted can be used, passes the check, and its hub can be written and read again. Of whatever shape
//! it is, it costs what a kubeconfig may.

#![cfg_attr(fuzzing, no_main)]

use std::time::Duration;

use fuzz::{CERTIFICATE, HUGE, KEY, bounded, expanded, of_kubeconfig, parts, sentence};
use serde_json::Value;
use shared::{
    client::{Client, Reload, Timeouts},
    config::{ClusterConfig, Trust},
    error::Result,
    kubeconfig::{self, Hub},
    secret::Data,
};

/// What seeds have for a password or token.
const SECRET: &str = "hunter2";
/// What the Secret has beside the kubeconfig.
const TOKEN: &str = "secret of its own";
/// TLS, keys, and what YAML of some depth keeps of each level.
const OVERHEAD: usize = 256 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let text = expanded(data, HUGE);
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
    // What it may cost; a text that is not whole yet, with room to grow; what is taken of it and of the keys,
    // decoded and in its parts.
    let cost = of_kubeconfig(config);
    let limit = cost + 6 * text.len() + OVERHEAD;
    // What costs memory takes time too.
    let length = text.len() + cost / 16;
    let parsed = bounded(length, limit, || kubeconfig::parse(config));
    let access = bounded(length, limit, || kubeconfig::from_secret("ns/x", &keys));
    let checked = bounded(length, limit, || kubeconfig::check_secret("ns/x", &keys));
    for error in [access.as_ref().err(), checked.as_ref().err()].into_iter().flatten() {
        told(error.message(), config, parsed.as_ref().ok());
    }
    match &parsed {
        Err(why) => {
            sentence(why, 100);
            assert!(access.is_err() && checked.is_err());
        }
        // YAML and the same as JSON mean the same; a map, as nothing else is read as JSON.
        Ok(value) if value.is_object() => {
            keys.insert("kubeconfig".to_owned(), value.to_string().into_bytes().into());
            assert!(same(&access, &kubeconfig::from_secret("ns/x", &keys)), "not the same as JSON");
            assert_eq!(checked, kubeconfig::check_secret("ns/x", &keys));
        }
        Ok(_) => assert!(access.is_err() && checked.is_err()),
    }
    if let Ok(access) = access {
        carried_over(&access, &keys);
        usable(access, checked);
    }
}

/// A kubeconfig for the same hub leads to the same hub.
fn carried_over(access: &ClusterConfig, keys: &Data) {
    if !access.server.starts_with("https://") {
        return;
    }
    // A cluster without a name serves a client, but nobody can ask for it.
    let hub = match Hub::of_secret("ns/x", keys) {
        Ok(hub) => hub,
        Err(error) => return sentence(error.message(), 1000),
    };
    assert!(!hub.name.is_empty());
    let text = hub.kubeconfig().into_bytes();
    let copy = Data::from([("kubeconfig".to_owned(), text.into())]);
    let copy = Hub::of_secret("ns/x", &copy).expect("our own can be read");
    assert_eq!(hub.differs_from(&copy), None);
    assert_eq!((&hub.server_name, hub.insecure), (&copy.server_name, copy.insecure));
}

/// `ClusterConfig` shows no credentials, so `assert_eq!` does not serve.
fn same(one: &Result<ClusterConfig>, other: &Result<ClusterConfig>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one == other,
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

/// An error is a sentence without credentials.
fn told(text: &str, config: &[u8], parsed: Option<&Value>) {
    sentence(text, 10 * config.len() + 1000);
    let config = String::from_utf8_lossy(config);
    let lines = KEY.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    // libFuzzer guesses what it is compared with, and makes a name of it.
    for other in lines.chain([TOKEN]).filter(|other| other.len() > 9 && !config.contains(other)) {
        assert!(!text.contains(other), "quotes another key: {text:?}");
    }
    // Only if it stands in one place: elsewhere it may be a name.
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

/// What is accepted can be used, or is refused by another sentence.
fn usable(access: ClusterConfig, checked: Result<()>) {
    let secure = access.server.starts_with("https://");
    assert!(secure || access.server.starts_with("http://"), "{}", access.server);
    assert!(!access.server.contains(|c: char| c.is_control() || c.is_whitespace()));
    assert!(!secure || checked.is_ok(), "{checked:?}");
    assert!(!format!("{access:?}").contains("PRIVATE KEY"));
    // The system's roots are files.
    if secure && !matches!(access.trust, Trust::Bundle(_)) {
        return;
    }
    let timing = Timeouts::with_request(Duration::from_secs(1));
    if let Err(error) = Client::new("the hub", access, Reload::Never, timing) {
        sentence(error.message(), 10_000);
    }
}
