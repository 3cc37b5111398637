//! Command lines and the rights that they need.

use shared::flags::{Invocation, parse};

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

/// The rules of a text that have this line.
fn rules<'a>(text: &'a str, line: &str) -> Vec<&'a str> {
    text.split("  - ").filter(|rule| rule.lines().any(|l| l.trim() == line)).collect()
}

const WHOLE: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: remote-sync-source
rules:
  - apiGroups: [\"\"]
    resources: [configmaps]
    verbs: [get, list, watch, patch]
  - apiGroups: [\"\"]
    resources: [configmaps/status]
    verbs: [patch]
  - apiGroups: [\"\"]
    resources: [configmaps/finalizers]
    verbs: [update]
  - apiGroups: [example.com]
    resources: [widgets, gadgets]
    verbs: [get, list, watch, patch]
  - apiGroups: [example.com]
    resources: [widgets/status, gadgets/status]
    verbs: [patch]
  - apiGroups: [example.com]
    resources: [widgets/finalizers, gadgets/finalizers]
    verbs: [update]
  - apiGroups: [\"\"]
    resources: [secrets]
    resourceNames: [token-east, \"7-east\", token-west, \"7-west\"]
    verbs: [update]
  - apiGroups: [\"\"]
    resources: [namespaces]
    resourceNames: [kube-system]
    verbs: [get]
  - apiGroups: [\"\"]
    resources: [events]
    verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: remote-sync-target
rules:
  - apiGroups: [\"\"]
    resources: [configmaps]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [example.com]
    resources: [widgets, gadgets]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [\"\"]
    resources: [namespaces]
    verbs: [get, list, watch, create, delete]
  - apiGroups: [\"\"]
    resources: [secrets]
    resourceNames: [token, \"7\"]
    verbs: [get, list, watch, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: remote-sync
  namespace: hubs
rules:
  - apiGroups: [\"\"]
    resources: [secrets]
    resourceNames: [west]
    verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: remote-sync
  namespace: own
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [remote-sync]
    verbs: [get, update]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
";

#[test]
fn all_roles_are_one_text() {
    let line = "-resource widgets.example.com,configmaps,example.com/v1/gadgets -leader-election \
        -local-secret-name token,7 -remote-resource-suffix -{cluster} \
        -remote-kubeconfig /etc/east -remote-kubeconfig-secret hubs/west";
    assert_eq!(printed(line), WHOLE);
}

#[test]
fn without_secrets_and_election_there_is_less() {
    let text = printed("-resource configmaps");
    for absent in ["secrets", "finalizers", "leases", "kind: Role"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
}

#[test]
fn each_mode_has_its_own_writes() {
    let verbs = |line: &str| {
        let text = printed(&format!("-resource configmaps {line}"));
        let target = text.split_once("-target").unwrap().1.to_owned();
        let rule = rules(&target, "resources: [configmaps]")[0].to_owned();
        rule.lines().find_map(|l| l.trim().strip_prefix("verbs: ").map(str::to_owned)).unwrap()
    };
    assert_eq!(verbs("-orphan-policy keep"), "[get, list, watch, create, patch, delete]");
    assert_eq!(verbs("-mode compat"), "[get, list, watch, create, update, delete]");
    let keep = verbs("-mode compat -orphan-policy keep");
    assert_eq!(keep, "[get, list, watch, create, update, patch, delete]");
}

#[test]
fn uploaded_secrets_are_named_where_their_names_are_known() {
    let names = |line: &str| {
        let text = printed(&format!("-resource configmaps -local-secret-name token {line}"));
        let source = text.split_once("---").unwrap().0.to_owned();
        let rule = rules(&source, "resources: [secrets]")[0].to_owned();
        rule.lines().find_map(|l| l.trim().strip_prefix("resourceNames: ").map(str::to_owned))
    };
    assert_eq!(names("-remote-resource-suffix=-x").as_deref(), Some("[token-x]"));
    assert_eq!(names("-remote-selector a").as_deref(), Some("[token]"));
    assert_eq!(names("-remote-resource-suffix -{cluster}"), None);
    let registry = "-remote-selector a -remote-kubeconfig /b -remote-resource-suffix -{cluster}";
    assert_eq!(names(registry), None);
}

#[test]
fn of_a_registry_all_secrets_are_read() {
    let line = "-resource configmaps -remote-selector a -remote-kubeconfig-secret own/x,hubs/y";
    let text = printed(line);
    let roles: Vec<_> = text.split("---\n").skip(2).collect();
    assert_eq!(roles.len(), 2);
    assert!(roles[0].contains("namespace: hubs\n") && roles[0].contains("resourceNames: [\"y\"]"));
    assert!(roles[1].contains("namespace: own\n") && !roles[1].contains("resourceNames"));
}

/// Without comments.
fn bare(manifest: &str) -> String {
    manifest.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_manifests_grant_what_is_printed_for_their_flags() {
    let deployment = include_str!("../../../../manifests/remote-sync/deployment.yaml");
    let flags = deployment.lines().filter_map(|line| line.trim().strip_prefix("- -"));
    let line: String = flags.map(|flag| format!("-{flag} ")).collect();
    let roles = [
        include_str!("../../../../manifests/remote-sync/hub/clusterrole.yaml"),
        include_str!("../../../../manifests/remote-sync/clusterrole.yaml"),
        include_str!("../../../../manifests/remote-sync/role.yaml"),
    ];
    assert_eq!(roles.map(bare).join("---\n"), printed(&line), "for {line}");
}
