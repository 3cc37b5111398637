//! Kinds as they are named, and as servers serve them.

use std::{fs, time::Duration};

use apiclient::{
    client::{Reload, Timeouts},
    resource::Resource,
};
use dev_apiserver::{Action, Options, Resource as Registered, Rule, Server};
use serde_json::json;

use super::*;

#[test]
fn a_kind_is_named_in_four_ways() {
    let wanted = |group: &str, version: Option<&str>, plural: &str| ResourceArg {
        group: group.into(),
        version: version.map(str::to_owned),
        plural: plural.into(),
    };
    for (text, expected) in [
        ("configmaps", wanted("", Some("v1"), "configmaps")),
        ("v1/configmaps", wanted("", Some("v1"), "configmaps")),
        ("deployments.apps", wanted("apps", None, "deployments")),
        ("widgets.example.com", wanted("example.com", None, "widgets")),
        ("example.com/v1beta1/widgets", wanted("example.com", Some("v1beta1"), "widgets")),
    ] {
        assert_eq!(ResourceArg::parse(text), Ok(expected), "{text}");
    }
    for bad in [
        "",
        "Deployment.v1.apps",
        "apps/deployments",
        "apps/v1/deployments/status",
        "/v1/configmaps",
        "../v1/secrets",
        "a b",
    ] {
        let refusal = ResourceArg::parse(bad).unwrap_err();
        assert!(refusal.starts_with("-resource must be ") && refusal.contains(bad), "{refusal}");
    }
    assert!(wanted("a", None, "x").same(&wanted("a", Some("v2"), "x")));
    assert_eq!(wanted("policy", Some("v1"), "pods").to_string(), "pods.policy");
    assert_eq!(wanted("", Some("v1"), "pods").to_string(), "pods");
}

fn client(kubeconfig: &str) -> Client {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    fs::write(&file, kubeconfig).unwrap();
    let access = kubeconfig::from_file(&file).unwrap();
    let timing = Timeouts::with_request(Duration::from_secs(5));
    Client::new("the hub", access, Reload::Never, timing).unwrap()
}

#[test]
fn a_server_says_what_it_has() {
    let server = Server::start(Options::default()).unwrap();
    let client = client(&server.kubeconfig());
    let resolve = |text: &str| resolve(&client, &ResourceArg::parse(text).unwrap());
    let found = |text: &str| {
        let kind = resolve(text).unwrap();
        (kind.resource.api_version(), kind.resource.kind, kind.namespaced, kind.status)
    };
    let kind = |api: &str, kind: &'static str, namespaced, status| {
        (api.to_owned(), kind.into(), namespaced, status)
    };
    assert_eq!(found("configmaps"), kind("v1", "ConfigMap", true, false));
    let budgets = kind("policy/v1", "PodDisruptionBudget", true, true);
    assert_eq!(found("poddisruptionbudgets.policy"), budgets);
    assert_eq!(found("policy/v1/poddisruptionbudgets"), budgets);
    let absent =
        Error::NotServed("the hub does not serve regions.example.com to list and watch".into());
    assert_eq!(resolve("regions.example.com"), Err(absent.clone()), "the group is not there");
    server.register(Registered::custom("example.com", "v1", "widgets", "Widget", true));
    assert_eq!(resolve("regions.example.com"), Err(absent), "the kind is not there");
    server.register(Registered::custom("example.com", "v2", "regions", "Region", false));
    let region = kind("example.com/v2", "Region", false, true);
    assert_eq!(found("regions.example.com"), region, "it is not in the preferred version");
    assert!(matches!(resolve("example.com/v1/regions"), Err(Error::NotServed(_))));
}

#[test]
fn a_version_in_use_stays_while_it_is_served() {
    let server = Server::start(Options::default()).unwrap();
    let widgets = Registered::custom("example.com", "v2", "widgets", "Widget", true);
    server.register(Registered { versions: ["v2", "v1"].map(str::to_owned).into(), ..widgets });
    let client = client(&server.kubeconfig());
    let wanted = ResourceArg::parse("widgets.example.com").unwrap();
    let preferred = resolve(&client, &wanted).unwrap();
    for version in ["v1", "v2"] {
        let resource = Resource { version: version.into(), ..preferred.resource.clone() };
        let known = ApiResource { resource, ..preferred };
        assert_eq!(resolve_again(&client, &wanted, Some(&known)), Ok(known), "{version}");
    }
    let resource = Resource { version: "v1beta1".into(), ..preferred.resource.clone() };
    let gone = ApiResource { resource, ..preferred };
    assert_eq!(resolve_again(&client, &wanted, Some(&gone)), Ok(preferred));
}

/// ReferenceGrants of the Gateway API, say, are not in the version that their group prefers.
#[test]
fn a_namespace_may_hold_kinds_of_any_version_of_their_group() {
    let server = Server::start(Options::default()).unwrap();
    for (version, plural, kind) in [
        ("v1", "widgets", "Widget"),
        ("v1alpha2", "routes", "Route"),
        ("v1beta1", "grants", "Grant"),
        ("v1beta1", "widgets", "Widget"),
    ] {
        server.register(Registered::custom("example.com", version, plural, kind, true));
    }
    let kinds = namespaced(&client(&server.kubeconfig())).unwrap();
    let ours = kinds.iter().filter(|kind| kind.resource.group == "example.com");
    let mut plurals: Vec<_> = ours.map(|kind| &*kind.resource.plural).collect();
    plurals.sort_unstable();
    assert_eq!(plurals, ["grants", "routes", "widgets"]);
    assert!(kinds.iter().any(|kind| kind.resource.plural == "secrets"));
}

#[test]
fn an_odd_answer_does_not_list_all_kinds() {
    let server = Server::start(Options::default()).unwrap();
    let version = |n: usize| json!({"version": format!("v{n}")});
    let many: Vec<_> = (0..=MAX_VERSIONS).map(version).collect();
    for odd in [
        json!({}),
        json!({"kind": "Status"}),
        json!({"kind": "APIGroupList", "groups": [{"name": "example.com"}]}),
        json!({"kind": "APIGroupList", "groups": [{"name": "example.com", "versions": many}]}),
    ] {
        let answer = Action::Answer { code: 200, body: Some(odd.to_string()), retry_after: None };
        server.faults().add(Rule::new(answer).times(1));
        let error = namespaced(&client(&server.kubeconfig())).unwrap_err();
        assert!(matches!(error, Error::BadPeer(_)), "{odd}: {error}");
    }
}

#[test]
fn a_failure_does_not_mean_that_a_kind_is_absent() {
    let server = Server::start(Options::default()).unwrap();
    let wanted = ResourceArg::parse("deployments.apps").unwrap();
    let token = server.token("robot", &[]);
    let mut config: serde_json::Value = serde_json::from_str(&server.kubeconfig()).unwrap();
    config["users"][0]["user"] = json!({"token": token});
    let client = client(&config.to_string());
    assert!(resolve(&client, &wanted).is_ok());
    server.revoke(&token);
    let error = resolve(&client, &wanted).unwrap_err();
    assert!(matches!(error, Error::Unauthorized(_)), "{error}");
    drop(server);
    let error = resolve(&client, &wanted).unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
}
