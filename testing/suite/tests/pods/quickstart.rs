//! The quick starts of the programs' READMEs, as they are typed.

use std::fs;

use serde_json::{Value, json};
use suite::{
    audit::{self, assert_none_is_missing, assert_used, granted, is_in_group, is_of_account, text},
    ocm::Hub,
};

use crate::{Terminal, root};

#[test]
#[ignore = "needs a control plane with a node to itself"]
fn quick_starts_of_each_program_run_as_typed() {
    let terminal = Terminal::open();
    let _hub = Hub::new();
    let last = |printed: &str| printed.lines().last().unwrap_or_default().to_owned();
    let clusters = terminal.follow_program("csr-bootstrapper", "csr-bootstrapper");
    assert!(last(&clusters).ends_with("/cluster1 condition met"), "{clusters}");
    let answer = terminal.follow_program("csr-bootstrapper", "csr-bootstrapper-check");
    assert_eq!(last(&answer), "ok");
    let name = terminal.follow_program("hub-kubeconfig-dumper", "hub-kubeconfig-dumper");
    assert_eq!(last(&name), "cluster1");
    let answer = terminal.follow_program("hub-kubeconfig-dumper", "hub-kubeconfig-dumper-check");
    assert_eq!(last(&answer), "ok");
    let lease = terminal.follow_program("addon-lease-controller", "addon-lease-controller");
    assert!(last(&lease).starts_with("my-addon"), "{lease}");
    let answer = terminal.follow_program("addon-lease-controller", "addon-lease-controller-check");
    assert_eq!(last(&answer), "ok");
    let widgets = terminal.follow_program("remote-sync", "remote-sync");
    assert!(last(&widgets).starts_with("blue "), "{widgets}");
    let state = terminal.follow_program("remote-sync", "remote-sync-follow");
    assert!(state.contains("\nok") && state.contains("widgets.example.com"), "{state}");
    let pairs = terminal.follow_program("remote-sync", "remote-sync-check");
    assert!(pairs.contains("state=\"insync\"} 1"), "{pairs}");
    each_right_of_remote_sync_is_used(&terminal);
    no_right_is_missing(&["csr-bootstrapper", "my-agent", "my-addon", "remote-sync"]);
}

/// With what the manifests grant, nothing was forbidden on either cluster.
pub(crate) fn no_right_is_missing(accounts: &[&str]) {
    for account in accounts {
        let requests = audit::requests("managed", |event| is_of_account(event, account));
        assert_none_is_missing(&requests);
    }
    // csr-bootstrapper asks before the hub has given it its rights.
    let requests = audit::requests("hub", |event| {
        text(event, "/userAgent").starts_with("remote-sync/")
            && is_in_group(event, "system:open-cluster-management:cluster1")
    });
    assert_none_is_missing(&requests);
}

/// Leads widgets through their lives; what the manifests grant is then used, by the audit logs.
fn each_right_of_remote_sync_is_used(terminal: &Terminal) {
    let uid = terminal
        .run("kubectl --context cluster1 -n widgets get widget blue -o 'jsonpath={.metadata.uid}'");
    let owner = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "blue", "uid": uid, "controller": true,
    });
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"token": "1"},
        "metadata": {"name": "widget-token", "namespace": "widgets", "ownerReferences": [owner]},
    });
    fs::write(terminal.directory.path().join("token.json"), token.to_string()).expect("the Secret");
    let widget = |name: &str| {
        format!(
            "sed 's/name: blue/name: {name}/' manifests/examples/widgets/widget.yaml | kubectl --context hub apply -f -"
        )
    };
    for command in [
        "kubectl --context cluster1 -n widgets patch widget blue --subresource status --type merge -p '{\"status\":{\"phase\":\"Ready\"}}'",
        "kubectl --context hub -n cluster1 wait --for=jsonpath='{.status.phase}'=Ready widget/blue --timeout=120s",
        "kubectl --context cluster1 apply -f token.json",
        "kubectl --context hub -n cluster1 wait --for=jsonpath='{.data.token}'=MQ== secret/widget-token --timeout=120s",
        "kubectl --context cluster1 -n widgets patch secret widget-token --type merge -p '{\"data\":{\"token\":\"Mg==\"}}'",
        "kubectl --context hub -n cluster1 wait --for=jsonpath='{.data.token}'=Mg== secret/widget-token --timeout=120s",
        "kubectl --context hub -n cluster1 patch widget blue --type merge -p '{\"spec\":{\"size\":5}}'",
        "kubectl --context cluster1 -n widgets wait --for=jsonpath='{.spec.size}'=5 widget/blue --timeout=120s",
        // Two deletions are counted, and one widget is somebody else's.
        &widget("red"),
        &widget("green"),
        "kubectl --context cluster1 -n widgets wait --for=create widget/red widget/green --timeout=120s",
        "kubectl --context hub -n cluster1 delete widget red --timeout=120s",
        "kubectl --context hub -n cluster1 delete widget green --timeout=120s",
        "sed 's/name: blue/name: gray/; s/: cluster1/: widgets/; s/size: 3/size: 9/' manifests/examples/widgets/widget.yaml | kubectl --context cluster1 apply -f -",
        &widget("gray"),
        "until kubectl --context hub -n cluster1 get events -o name | grep gray; do sleep 1; done",
        "kubectl --context hub -n cluster1 delete widget gray --timeout=120s",
        // One goes while the program is away, without its finalizer: a read confirms that.
        "kubectl --context cluster1 -n open-cluster-management-agent patch deployment remote-sync --type json -p '[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":0},{\"op\":\"add\",\"path\":\"/spec/template/spec/containers/0/args/-\",\"value\":\"-orphan-grace=1s\"}]'",
        "kubectl --context cluster1 -n open-cluster-management-agent wait --for delete pod -l app.kubernetes.io/name=remote-sync --timeout 120s",
        "kubectl --context hub -n cluster1 patch widget blue --type merge -p '{\"metadata\":{\"finalizers\":null}}'",
        "kubectl --context hub -n cluster1 delete widget blue",
        "kubectl --context cluster1 -n open-cluster-management-agent scale deployment remote-sync --replicas 1",
        "kubectl --context cluster1 -n widgets wait --for delete widget/blue --timeout 120s",
    ] {
        terminal.run(command);
    }
    let rights = |files: &[&str]| {
        let read = |file: &&str| {
            fs::read_to_string(root().join("manifests/remote-sync").join(file)).expect("a Role")
        };
        let roles = files.iter().map(|file| serde_yaml::from_str(&read(file)).expect("YAML"));
        granted(&roles.collect::<Vec<Value>>())
    };
    let requests = |cluster| {
        audit::requests(cluster, |event| text(event, "/userAgent").starts_with("remote-sync/"))
    };
    let mut source = rights(&["hub/role.yaml", "hub/clusterrole.yaml"]);
    // It is asked for by an admission plugin, OwnerReferencesPermissionEnforcement, and never by a request.
    source.retain(|right| right.resource != "widgets/finalizers");
    assert_used(&source, &requests("hub"));
    let target = rights(&["role.yaml", "clusterrole.yaml", "target/role.yaml"]);
    assert_used(&target, &requests("managed"));
}
