//! RBAC of command lines.

use serde_json::{Value, json};
use sidecar::flags::{Invocation, parse};

use super::*;
use crate::settings::table;

fn printed(line: &str) -> String {
    let line = format!("-print-rbac -namespace own {line}");
    let Invocation::Run(flags) =
        parse("x", &table(), line.split_whitespace().map(Into::into)).unwrap()
    else {
        panic!("help")
    };
    print(&Settings::new(&flags).unwrap())
}

/// The roles in a text.
fn roles(text: &str) -> Vec<Value> {
    text.split("---\n").map(|role| kubeconfig::parse(role.as_bytes()).unwrap()).collect()
}

/// The rule of a role for these resources.
fn rule_for(role: &Value, resource: &str) -> Value {
    let mut rules = role["rules"].as_array().unwrap().iter();
    rules.find(|rule| rule["resources"] == json!([resource])).unwrap().clone()
}

/// The manifests hold a whole role of each side, see below.
#[test]
fn kinds_are_grouped_and_names_are_quoted() {
    let line = "-resource widgets.example.com,configmaps,example.com/v1/gadgets -leader-election \
        -target-secret-name token,7 -source-name-suffix -{cluster} \
        -remote-kubeconfig /etc/east -remote-kubeconfig-secret hubs/west";
    let text = printed(line);
    assert!(text.contains("resources: [widgets, gadgets]"), "{text}");
    let roles = roles(&text);
    let names = |role: usize| rule_for(&roles[role], "secrets")["resourceNames"].clone();
    assert_eq!(names(0), json!(["token-east", "7-east", "token-west", "7-west"]));
    assert_eq!((names(1), names(2)), (json!(["token", "7"]), json!(["west"])));
    let own = ["leases", "leases", "configmaps", "configmaps"].map(str::to_owned).to_vec();
    assert_eq!(outline(&roles[3]), ("Role".into(), "own".into(), own));
    assert_eq!(rule_for(&roles[3], "leases")["verbs"], json!(["get", "update"]));
}

#[test]
fn without_secrets_and_election_there_is_less() {
    let text = printed("-resource configmaps");
    for absent in ["secrets", "finalizers", "leases", "customresourcedefinitions"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    let empty = printed("-resource configmaps -namespace-policy empty");
    assert!(empty.contains("\"*\"") && !text.contains("\"*\""), "{text}");
}

#[test]
fn track_target_changes_nothing_of_a_source_but_its_status() {
    let source = |line: &str| roles(&printed(&format!("-resource configmaps {line}"))).remove(0);
    let verbs = |line: &str, resource: &str| rule_for(&source(line), resource)["verbs"].clone();
    assert_eq!(verbs("-track target", "configmaps"), json!(["get", "list", "watch"]));
    assert_eq!(verbs("-track target", "configmaps/status"), json!(["patch"]));
    assert_eq!(verbs("", "configmaps"), json!(["get", "list", "watch", "patch"]));
}

#[test]
fn uploaded_secrets_are_named_where_their_names_are_known() {
    let known = "-source-name-suffix=-x";
    let unknown = "-source-name-suffix -{cluster} -remote-selector a -remote-kubeconfig /b";
    for (line, names, said) in [
        (known, json!(["token-x"]), 1),
        ("-remote-selector a", json!(["token"]), 2),
        (unknown, Value::Null, 3),
    ] {
        let text = printed(&format!("-resource configmaps -target-secret-name token {line}"));
        assert_eq!(rule_for(&roles(&text)[0], "secrets")["resourceNames"], names, "{line}");
        let said_of = text.matches("# secrets: ").count();
        assert_eq!(said_of, said, "rules that name no Secret say so: {line}");
    }
}

#[test]
fn of_a_registry_all_secrets_are_read() {
    let line = "-resource configmaps -remote-selector a -remote-kubeconfig-secret own/x,hubs/y";
    let roles = roles(&printed(line)).split_off(2);
    let secrets = |role: &Value| {
        (role["metadata"]["namespace"].clone(), rule_for(role, "secrets")["resourceNames"].clone())
    };
    let expected = [(json!("hubs"), json!(["y"])), (json!("own"), Value::Null)];
    assert_eq!(roles.iter().map(secrets).collect::<Vec<_>>(), expected);
}

#[test]
fn the_manifests_grant_what_is_printed_for_their_flags() {
    let deployment = include_str!("../../../../manifests/remote-sync/deployment.yaml");
    let flags = deployment.lines().filter_map(|line| line.trim().strip_prefix("- -"));
    let line: String = flags.map(|flag| format!("-{flag} ")).collect();
    let line = format!("{line} -namespace open-cluster-management-agent");
    // The kubelet substitutes the pod's namespace.
    let line = line.replace("$(POD_NAMESPACE)", "open-cluster-management-agent");
    let manifests = [
        include_str!("../../../../manifests/remote-sync/hub/clusterrole.yaml"),
        include_str!("../../../../manifests/remote-sync/hub/role.yaml"),
        include_str!("../../../../manifests/remote-sync/clusterrole.yaml"),
        include_str!("../../../../manifests/remote-sync/target/role.yaml"),
        include_str!("../../../../manifests/remote-sync/role.yaml"),
    ];
    // The Secret is shipped empty.
    assert!(
        include_str!("../../../../manifests/remote-sync/hub/secret.yaml").contains("widget-token")
    );
    let mut wanted = roles(&printed(&line));
    let create = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]});
    for role in &mut wanted {
        role["rules"].as_array_mut().unwrap().retain(|rule| *rule != create);
    }
    assert_eq!(roles(&manifests.join("---\n")), wanted, "for {line}");
}

/// Kind, namespace, and the resources of the rules.
fn outline(role: &Value) -> (String, String, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rules = role["rules"].as_array().unwrap().iter();
    let resources = rules.map(|rule| text(&rule["resources"][0])).collect();
    (text(&role["kind"]), text(&role["metadata"]["namespace"]), resources)
}

#[test]
fn with_a_source_namespace_there_is_a_role_in_that() {
    let line = "-resource widgets.example.com -source-namespace a -target-secret-name token";
    let roles = roles(&printed(line));
    let inside =
        ["widgets", "widgets/status", "widgets/finalizers", "secrets", "secrets", "events"];
    let inside: Vec<_> = inside.into_iter().chain(["namespaces"]).map(str::to_owned).collect();
    let outside = ["namespaces", "customresourcedefinitions"].map(str::to_owned).to_vec();
    assert_eq!(outline(&roles[0]), ("ClusterRole".into(), String::new(), outside));
    assert_eq!(rule_for(&roles[0], "namespaces")["resourceNames"], json!(["kube-system"]));
    assert_eq!(outline(&roles[1]), ("Role".into(), "a".into(), inside));
    assert_eq!(rule_for(&roles[1], "namespaces")["verbs"], json!(["get"]));
    assert_eq!(outline(&roles[2]).0, "ClusterRole", "targets may be in any namespace");
    assert_eq!(outline(&roles[3]), ("Role".into(), "own".into(), vec!["configmaps".into(); 2]));
    assert_eq!(roles.len(), 4);
}

#[test]
fn with_a_target_namespace_there_is_a_role_in_that() {
    let line = "-resource configmaps -source-namespace a -target-namespace b";
    let all = roles(&printed(line)).split_off(2);
    let identity = json!([{"apiGroups": [""], "resources": ["namespaces"],
        "resourceNames": ["kube-system"], "verbs": ["get"]}]);
    assert_eq!(all[0]["rules"], identity, "none is created, and none looked into");
    assert_eq!(outline(&all[1]), ("Role".into(), "b".into(), vec!["configmaps".into()]));
}
