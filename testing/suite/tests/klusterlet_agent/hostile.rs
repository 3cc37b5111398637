//! A cluster that refuses or lacks what a manifest needs: only the manifest is affected, and a condition says why.

use std::time::{Duration, Instant};

use dev_apiserver::{Action, Resource, Rule};
use serde_json::{Value, json};
use suite::{
    eventually,
    faults::code,
    stays, within,
    work::{Stage, config_map, object, thing},
};

fn secret(name: &str) -> Value {
    let mut secret = object("v1", "Secret", name);
    secret["stringData"] = json!({"k": "v"});
    secret
}

/// Waits until the first manifest is not applied, for this reason, and the second one is.
fn wait_for_damage_of_the_first(stage: &Stage, why: &str) {
    eventually(&format!("the damage: {}", stage.work("w")["status"]), || {
        let [first, second] = [0, 1].map(|at| stage.manifest_applied(at));
        first["status"] == "False"
            && first["message"].as_str().is_some_and(|message| message.contains(why))
            && second["status"] == "True"
    });
}

fn definition() -> Value {
    let names =
        json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    })
}

/// As under the klusterlet operator. A later edit removes what an earlier one added.
#[test]
fn definition_is_updated_without_the_right_to_patch_it() {
    let stage = Stage::new();
    stage.managed.faults().deny("patch", "customresourcedefinitions", "");
    let mut agent = stage.start(&[]);
    for labels in [json!({}), json!({"a": "1"}), json!({})] {
        let mut definition = definition();
        definition["metadata"]["labels"] = labels.clone();
        stage.apply(&[definition]);
        stage.wait_for_applied("w", "True");
        let (api, plural) = ("apiextensions.k8s.io/v1", "customresourcedefinitions");
        let stored = stage.managed.get(api, plural, "", "things.example.com").unwrap();
        assert_eq!(stored["metadata"]["labels"].get("a"), labels.get("a"));
    }
    agent.terminate();
}

#[test]
fn namespace_may_come_later() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let mut elsewhere = config_map("a", "1");
    elsewhere["metadata"]["namespace"] = "later".into();
    stage.apply(&[elsewhere, config_map("b", "1")]);
    wait_for_damage_of_the_first(&stage, "namespaces \"later\" not found");
    stage.managed.create_namespace("later");
    stage.wait_for_applied("w", "True");
    agent.terminate();
}

/// A webhook that refuses, a busy server, and a group that discovery cannot read.
#[test]
fn refusal_stays_with_its_manifest() {
    let stage = Stage::new();
    stage.managed.register(Resource::custom("example.com", "v1", "things", "Thing", true));
    let mut agent = stage.start(&[]);
    let denied = Action::Answer {
        code: 400,
        body: Some(
            json!({
                "kind": "Status", "code": 400, "reason": "BadRequest",
                "message": "admission webhook \"x\" denied the request: no",
            })
            .to_string(),
        ),
        retry_after: None,
    };
    for (rule, why) in [
        // Read before anything of it is known.
        (Rule::new(code(503)).resource("/apis/example.com/v1"), "503"),
        (Rule::new(denied).verb("create").resource("things"), "denied the request: no"),
        (Rule::new(code(429)).verb("create").resource("things"), "429"),
    ] {
        let rule = stage.managed.faults().add(rule);
        stage.apply(&[thing("t", json!({})), config_map("a", "1")]);
        wait_for_damage_of_the_first(&stage, why);
        stage.managed.faults().remove(rule);
        stage.wait_for_applied("w", "True");
        stage.apply(&[config_map("a", "1")]);
        eventually("pruned", || stage.managed.list("example.com/v1", "things", "").is_empty());
    }
    agent.terminate();
}

/// Requests that match `hang` are not answered; a work without the kind of `manifest` is applied all the same.
fn other_work_is_applied_beside(hang: &str, resource: &str, manifest: impl Fn(&str) -> Value) {
    let stage = Stage::new();
    stage.managed.register(Resource::custom("example.com", "v1", "things", "Thing", true));
    let mut agent = stage.start(&[]);
    let rule = Rule::new(Action::Delay { milliseconds: 60_000 });
    stage.managed.faults().add(rule.verb(hang).resource(resource));
    for n in 0..8 {
        let manifests = ["a", "b", "c"].map(|name| manifest(&format!("{name}{n}")));
        stage.put_work(&format!("hangs{n}"), json!({"workload": {"manifests": manifests}}));
    }
    stage.wait_for_applied("hangs0", "False");
    for value in ["1", "2"] {
        let begun = Instant::now();
        stage.apply(&[config_map("a", value)]);
        stage.wait_for_applied("w", "True");
        assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    }
    // Its status is not written again while the requests hang.
    let reports = || {
        let writes = stage.hub.writes().into_iter();
        writes.filter(|write| write.path.ends_with("/hangs0/status")).count()
    };
    stays("one report", || reports() == 1);
    assert_eq!(agent.ask("/healthz").0, 200);
    agent.ends_at_once();
}

/// As in a webhook.
#[test]
fn kind_whose_writes_hang_is_not_in_the_way_of_other_works() {
    other_work_is_applied_beside("create", "secrets", secret);
}

/// As in the webhook that converts it, or in the server of an aggregated API.
#[test]
fn kind_whose_reads_hang_is_not_in_the_way_of_other_works() {
    other_work_is_applied_beside("get", "things", |name| thing(name, json!({})));
}

#[test]
fn version_whose_discovery_hangs_is_not_in_the_way_of_other_works() {
    other_work_is_applied_beside("get", "/apis/example.com/v1", |name| thing(name, json!({})));
}

#[test]
fn hub_that_hangs_is_not_in_the_way_of_edits() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let put_all = |value: &str| {
        for n in 0..8 {
            let manifests = [config_map(&format!("m{n}"), value)];
            stage.put_work(&format!("w{n}"), json!({"workload": {"manifests": manifests}}));
        }
    };
    put_all("1");
    (0..8).for_each(|n| stage.wait_for_applied(&format!("w{n}"), "True"));
    let rule = Rule::new(Action::Delay { milliseconds: 60_000 });
    let rule = stage.hub.faults().add(rule.verb("patch").resource("manifestworks"));
    put_all("2");
    within(25, "all edits", || (0..8).all(|n| stage.data(&format!("m{n}")) == Some(json!("2"))));
    stage.hub.faults().remove(rule);
    (0..8).for_each(|n| stage.wait_for_applied_within(120, &format!("w{n}"), "True"));
    agent.ends_at_once();
}

#[test]
fn deleted_record_is_recreated() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    let before = stage.records()[0]["metadata"].clone();
    let name = before["name"].as_str().expect("a name");
    stage.managed.delete(suite::work::API, "appliedmanifestworks", "", name);
    eventually("another record", || {
        let records = stage.records();
        records.len() == 1
            && records[0]["metadata"]["uid"] != before["uid"]
            && stage.data("a") == Some(json!("1"))
    });
    agent.terminate();
}
