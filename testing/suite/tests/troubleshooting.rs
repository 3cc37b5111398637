//! docs/troubleshooting.md: each cause is provoked here, and the program says what the page says, in its log or on
//! `/readyz`. In a message on the page, `<word>` stands for something without spaces and a final `…` for the rest.

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::date_time_ymd;
use serde_json::{Value, json};
use suite::{
    figures::{block, page},
    pause,
    relay::Way,
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
fn placeholders_are_words() {
    assert!(
        matches("a b c", "a b c") && matches("a bcd e", "a <x> e") && matches("ab, d", "a<x>, …")
    );
    assert!(!matches("a b c", "a b") && !matches("a b c e", "a <x> e") && !matches("a", "a<x>"));
}

/// Waits until the program says each line that the page has under this name.
#[track_caller]
fn says(name: &str, sidecar: &Sidecar) {
    let page = page("docs/troubleshooting.md");
    let wanted = block(&page, &format!("message:{name}"))
        .unwrap_or_else(|| panic!("the page has no message {name}"));
    let wanted: Vec<_> = wanted.lines().filter(|line| !line.starts_with("```")).collect();
    assert!(!wanted.is_empty(), "the message {name} is empty");
    let said = || {
        let log = sidecar.log();
        let log = log.lines().filter_map(|line| Some(line.split_once("] ")?.1.to_owned()));
        let ready = sidecar.ask("/readyz").1;
        log.chain(ready.lines().map(str::to_owned)).collect::<Vec<_>>()
    };
    let all_said = || {
        let said = said();
        wanted.iter().all(|message| said.iter().any(|line| matches(line, message)))
    };
    for _ in 0..200 {
        if all_said() {
            return;
        }
        pause(100);
    }
    panic!(
        "{name} is on the page as\n{}\nand was said as\n{}",
        wanted.join("\n"),
        said().join("\n")
    );
}

/// What the bootstrap kubeconfig says, changed.
fn bootstrap(spoke: &Spoke, change: impl FnOnce(&mut Value)) {
    let mut config: Value = serde_yaml::from_str(&spoke.bootstrap_kubeconfig()).expect("YAML");
    change(&mut config);
    spoke.put_bootstrap(&config.to_string());
}

// --- why a cluster is not joined ---

#[test]
fn the_bootstrap_secret_is_missing() {
    let spoke = Spoke::new("why-secret");
    spoke.delete_secret(&spoke.bootstrap);
    says("secret", &spoke.start(&[]));
}

#[test]
fn the_hub_is_signed_by_another_authority() {
    let spoke = Spoke::new("why-ca");
    let other = BASE64_STANDARD.encode(Authority::new("other").pem);
    bootstrap(&spoke, |config| {
        config["clusters"][0]["cluster"]["certificate-authority-data"] = json!(other);
    });
    says("ca", &spoke.start(&[]));
}

#[test]
fn the_bootstrap_token_has_expired() {
    let spoke = Spoke::new("why-token");
    bootstrap(&spoke, |config| config["users"][0]["user"] = json!({"token": "expired"}));
    says("token", &spoke.start(&[]));
}

#[test]
fn nobody_approves_the_request() {
    let spoke = Spoke::new("why-pending");
    says("pending", &spoke.start(&[]));
}

#[test]
fn the_request_is_denied() {
    let spoke = Spoke::new("why-denied");
    let sidecar = spoke.start(&[]);
    spoke.hub.deny_csr(&spoke.hub.next_csr(&spoke.cluster));
    says("denied", &sidecar);
}

#[test]
fn nobody_accepts_the_cluster() {
    let spoke = Spoke::new("why-accepted");
    let sidecar = spoke.start(&[]);
    spoke.hub.approve_next(&spoke.cluster);
    says("accepted", &sidecar);
}

#[test]
fn the_name_of_the_hub_is_unknown() {
    let spoke = Spoke::new("why-dns");
    bootstrap(&spoke, |config| {
        config["clusters"][0]["cluster"]["server"] = json!("https://hub.invalid:6443");
    });
    says("dns", &spoke.start(&[]));
}

#[test]
fn the_proxy_is_away() {
    let spoke = Spoke::new("why-proxy");
    let proxy = format!("http://127.0.0.1:{}", free_port());
    bootstrap(&spoke, |config| config["clusters"][0]["cluster"]["proxy-url"] = json!(proxy));
    says("proxy", &spoke.start(&[]));
}

#[test]
fn the_program_has_no_rights() {
    let spoke = Spoke::new("why-rights");
    for verb in ["get", "list", "watch"] {
        spoke.managed.faults().deny(verb, "secrets", &spoke.namespace);
    }
    says("rbac", &spoke.start(&[]));
}

#[test]
fn the_program_looks_into_another_namespace() {
    let spoke = Spoke::new("why-namespace");
    says("namespace", &spoke.start(&["-namespace", "default"]));
}

#[test]
fn the_clock_of_this_machine_is_behind() {
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
fn the_secret_with_the_hubs_kubeconfig_is_missing() {
    let scene = Scene::new("why-lease-secret");
    scene.delete_secret();
    says("lease-secret", &scene.start(&[]));
}

#[test]
fn the_hub_grants_no_lease() {
    let scene = Scene::new("why-lease-rights");
    scene.hub.faults().deny("create", "leases", &scene.cluster);
    says("lease-rbac", &scene.start(&[]));
}

#[test]
fn the_add_on_is_not_ready() {
    let scene = Scene::new("why-lease-ready");
    scene.set_ready(false);
    says("lease-ready", &scene.start(&[]));
}

#[test]
fn the_token_for_the_hub_has_expired() {
    let scene = Scene::new("why-lease-token");
    scene.put_secret(&scene.token_secret("expired"));
    says("lease-token", &scene.start(&[]));
}

// --- why an object is not copied ---

#[test]
fn the_hub_of_the_objects_is_away() {
    let stage = Stage::pull("why-sync-away", Setting::safe(&[&WIDGETS]));
    stage.remote().relay.set(Way::Closed);
    says("sync-away", &stage.start_served(&[]));
}

#[test]
fn the_kind_is_not_served() {
    let stage = Stage::pull("why-sync-kind", Setting::safe(&[&WIDGETS]));
    says("sync-kind", &stage.start_served(&["-resource", "gadgets.sync.example.com"]));
}

#[test]
fn the_hub_grants_no_widgets() {
    let (stage, ..) = Stage::with_widget("why-sync-rights");
    stage.remote().cluster.faults().deny("list", "widgets", "");
    says("sync-rbac", &stage.start_served(&[]));
}

#[test]
fn the_namespace_of_the_copies_is_missing() {
    let stage = Stage::pull("why-sync-namespace", Setting::safe(&[&WIDGETS]));
    let (source, _) = stage.pair(&WIDGETS, "one");
    source.create_number(1);
    says("sync-namespace", &stage.start_served(&["-create-namespaces=false"]));
}

#[test]
fn another_object_has_the_name() {
    let stage = Stage::pull("why-sync-conflict", Setting::safe(&[&WIDGETS]));
    let (source, target) = stage.pair(&WIDGETS, "one");
    stage.create_target_namespace(&json!({}));
    target.create_number(7);
    source.create_number(1);
    says("sync-conflict", &stage.start_served(&[]));
}
