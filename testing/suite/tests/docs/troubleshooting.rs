//! docs/troubleshooting.md: causes that no scenario has are provoked here, and the program says what the page says, in
//! its log or on `/readyz`. In a message on the page, `<word>` stands for something without spaces and a final `…` for
//! the rest.

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::date_time_ymd;
use serde_json::{Value, json};
use suite::{
    eventually,
    relay::Way,
    repository::{block, page},
    rogue::{Authority, Rogue},
    scene::Scene,
    sidecar::{Sidecar, free_port},
    spoke::Spoke,
    sync::{Setting, Stage, WIDGETS},
};

/// Whether a line is what the page has.
fn matches(line: &str, message: &str) -> bool {
    let Some((plain, rest)) = message.split_once(['<', '…']) else { return line == message };
    let Some(line) = line.strip_prefix(plain) else { return false };
    if rest.is_empty() {
        return true;
    }
    let (_, rest) = rest.split_once('>').expect("a placeholder ends");
    let word = line.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(line.len());
    (1..=word).filter(|at| line.is_char_boundary(*at)).any(|at| matches(&line[at..], rest))
}

#[test]
fn placeholders_match_words() {
    assert!(
        matches("a b c", "a b c") && matches("a bcd e", "a <x> e") && matches("ab, d", "a<x>, …")
    );
    assert!(!matches("a b c", "a b") && !matches("a b c e", "a <x> e") && !matches("a", "a<x>"));
}

/// Waits until the program says each line that the page has under this name.
#[track_caller]
fn says(name: &str, sidecar: &Sidecar) {
    let page = page("docs/troubleshooting.md");
    let wanted = block(&page, &format!("message:{name}")).expect("the block");
    let wanted: Vec<_> = wanted.lines().filter(|line| !line.starts_with("```")).collect();
    assert!(!wanted.is_empty(), "the message {name} is empty");
    println!("the page says\n{}", wanted.join("\n"));
    eventually(name, || {
        let log = sidecar.log();
        let log = log.lines().filter_map(|line| Some(line.split_once("] ")?.1.to_owned()));
        let ready = sidecar.ask("/readyz").1;
        let said: Vec<_> = log.chain(ready.lines().map(str::to_owned)).collect();
        wanted.iter().all(|message| said.iter().any(|line| matches(line, message)))
    });
}

/// What the bootstrap kubeconfig says, changed.
fn bootstrap(spoke: &Spoke, change: impl FnOnce(&mut Value)) {
    let mut config: Value = serde_yaml::from_str(&spoke.bootstrap_kubeconfig()).expect("YAML");
    change(&mut config);
    spoke.put_bootstrap(&config.to_string());
}

// --- why a cluster is not joined ---

#[test]
fn missing_bootstrap_secret_is_named() {
    let spoke = Spoke::new("why-secret");
    spoke.delete_secret(&spoke.bootstrap);
    says("secret", &spoke.start(&[]));
}

#[test]
fn hub_of_another_authority_is_reported() {
    let spoke = Spoke::new("why-ca");
    let other = BASE64_STANDARD.encode(Authority::new("other").pem);
    bootstrap(&spoke, |config| {
        config["clusters"][0]["cluster"]["certificate-authority-data"] = json!(other);
    });
    says("ca", &spoke.start(&[]));
}

#[test]
fn expired_bootstrap_token_is_reported() {
    let spoke = Spoke::new("why-token");
    bootstrap(&spoke, |config| config["users"][0]["user"] = json!({"token": "expired"}));
    says("token", &spoke.start(&[]));
}

#[test]
fn pending_request_names_its_command() {
    let spoke = Spoke::new("why-pending");
    says("pending", &spoke.start(&[]));
}

#[test]
fn unknown_hub_name_is_reported() {
    let spoke = Spoke::new("why-dns");
    bootstrap(&spoke, |config| {
        config["clusters"][0]["cluster"]["server"] = json!("https://hub.invalid:6443");
    });
    says("dns", &spoke.start(&[]));
}

#[test]
fn unreachable_proxy_is_reported() {
    let spoke = Spoke::new("why-proxy");
    let proxy = format!("http://127.0.0.1:{}", free_port());
    bootstrap(&spoke, |config| config["clusters"][0]["cluster"]["proxy-url"] = json!(proxy));
    says("proxy", &spoke.start(&[]));
}

#[test]
fn missing_right_is_named() {
    let spoke = Spoke::new("why-rights");
    for verb in ["get", "list", "watch"] {
        spoke.managed.faults().deny(verb, "secrets", &spoke.namespace);
    }
    says("rbac", &spoke.start(&[]));
}

#[test]
fn slow_clock_is_reported() {
    let spoke = Spoke::new("why-clock");
    let authority = Authority::new("of tomorrow");
    let pair = authority.sign(&["127.0.0.1"], |it| it.not_before = date_time_ymd(2090, 1, 1));
    let hub = Rogue::start(&pair, b"");
    bootstrap(&spoke, |config| {
        let cluster = &mut config["clusters"][0]["cluster"];
        cluster["server"] = json!(format!("https://{}", hub.address));
        cluster["certificate-authority-data"] = json!(BASE64_STANDARD.encode(&authority.pem));
    });
    says("clock", &spoke.start(&[]));
}

// --- why a Lease is not renewed ---

#[test]
fn refused_lease_is_reported() {
    let scene = Scene::new("why-lease-rights");
    scene.hub.faults().deny("create", "leases", &scene.cluster);
    says("lease-rbac", &scene.start(&[]));
}

#[test]
fn expired_hub_token_is_reported() {
    let scene = Scene::new("why-lease-token");
    scene.put_secret(&scene.token_secret("expired"));
    says("lease-token", &scene.start(&[]));
}

// --- why an object is not copied ---

#[test]
fn unreachable_source_is_reported() {
    let stage = Stage::pull("why-sync-away", Setting::safe(&[&WIDGETS]));
    stage.remote().relay.set(Way::Closed);
    says("sync-away", &stage.start_served(&[]));
}

#[test]
fn kind_that_is_not_served_is_named() {
    let stage = Stage::pull("why-sync-kind", Setting::safe(&[&WIDGETS]));
    says("sync-kind", &stage.start_served(&["-resource", "gadgets.sync.example.com"]));
}

#[test]
fn refused_list_of_sources_is_reported() {
    let (stage, ..) = Stage::with_widget("why-sync-rights");
    stage.remote().cluster.faults().deny("list", "widgets", "");
    says("sync-rbac", &stage.start_served(&[]));
}

#[test]
fn missing_target_namespace_is_reported() {
    let stage = Stage::pull("why-sync-namespace", Setting::safe(&[&WIDGETS]).same_names());
    let (source, _) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    let flags = ["-source-namespace", &*stage.namespace, "-target-namespace", &*stage.namespace];
    says("sync-namespace", &stage.start_served(&flags));
}

#[test]
fn object_in_the_way_is_reported() {
    let stage = Stage::pull("why-sync-conflict", Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    stage.create_target_namespace(&json!({}));
    target.create_number(7);
    source.create_number(1);
    says("sync-conflict", &stage.start_served(&[]));
}
