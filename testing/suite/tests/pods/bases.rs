//! Each base and component becomes Ready, in namespaces that enforce the restricted Pod Security Standard, and an
//! outage of the hub restarts none of them.

use std::fs;

use suite::ocm::Hub;

use crate::{AGENTS, Terminal, root};

const NAMESPACE: &str = "open-cluster-management-agent";
/// Seconds after which failing liveness probes have restarted a container: three periods of 20, and some.
const PROBES: u32 = 70;

#[test]
#[ignore = "needs a control plane with a node to itself"]
fn each_base_and_component_survives_an_outage() {
    let terminal = Terminal::open();
    let hub = Hub::new();
    terminal.follow_program("csr-bootstrapper", "csr-bootstrapper");
    hub.set_lease_duration("cluster1", 5);
    terminal.run(&format!(
        "kubectl --context cluster1 label namespace {NAMESPACE} pod-security.kubernetes.io/enforce=restricted
        kubectl --context cluster1 apply -k manifests/networkpolicy"
    ));
    the_dumper_is_sidecar_or_init_container(&terminal);
    csr_bootstrapper_is_an_agent_in_one_pod(&terminal);
    add_on_is_available(&terminal, &hub);
    components_are_in_deployments_of_others(&terminal, &hub);
    csr_bootstrapper_is_hosted(&terminal);
    terminal.follow_program("remote-sync", "remote-sync");
    an_outage_of_the_hub_restarts_nothing(&terminal);
}

/// Applies a kustomization in the clone, with one line of its main file changed.
fn apply(terminal: &Terminal, base: &str, line: &str, instead: &str) {
    let copy = terminal.directory.path().join("copy");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir(&copy).expect("a directory");
    for entry in fs::read_dir(root().join("manifests").join(base)).expect("the base") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::copy(&path, copy.join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
    let main = copy.join("kustomization.yaml");
    let text = fs::read_to_string(&main).expect("the kustomization");
    assert!(text.contains(line), "{base}: {line}");
    fs::write(&main, text.replace(line, instead)).expect("the kustomization");
    terminal.run("kubectl --context cluster1 apply -k copy");
}

fn the_dumper_is_sidecar_or_init_container(terminal: &Terminal) {
    terminal.run("kubectl --context cluster1 apply -k manifests/examples/my-agent");
    terminal.roll_out(NAMESPACE, "my-agent");
    terminal.run(&format!("{AGENTS} delete deployment my-agent"));
    let component = "../../components/hub-kubeconfig-dumper";
    let once = "../manifests/components/hub-kubeconfig-dumper-once";
    apply(terminal, "examples/my-agent", component, once);
    terminal.roll_out(NAMESPACE, "my-agent");
    let name = terminal.run(&format!(
        "{AGENTS} exec deployment/my-agent -- cat /spoke/hub-kubeconfig/cluster-name"
    ));
    assert!(name.ends_with("cluster1"), "{name}");
    terminal.run(&format!("{AGENTS} delete deployment my-agent"));
}

/// In place of the base, with its identity.
fn csr_bootstrapper_is_an_agent_in_one_pod(terminal: &Terminal) {
    let before = terminal.requests();
    terminal.run(&format!("{AGENTS} delete deployment csr-bootstrapper"));
    let commented = "# patches:\n#   - path: agent.yaml";
    apply(terminal, "csr-bootstrapper", commented, "patches:\n  - path: agent.yaml");
    terminal.roll_out(NAMESPACE, "csr-bootstrapper");
    terminal.wait_for_heartbeat();
    assert_eq!(terminal.requests(), before);
}

/// csr-bootstrapper reports the add-on as available.
fn add_on_is_available(terminal: &Terminal, hub: &Hub) {
    terminal.run(
        "kubectl --context cluster1 apply -k manifests/examples/my-addon
        kubectl kustomize manifests/csr-bootstrapper/addons |
            sed 's/open-cluster-management-agent-addon/my-addon/' | kubectl --context cluster1 apply -f -",
    );
    hub.add_addon("cluster1", "my-addon", "my-addon");
    terminal.roll_out("my-addon", "my-addon");
    terminal.run(
        "kubectl --context hub -n cluster1 wait managedclusteraddon/my-addon --for condition=Available --timeout 120s",
    );
}

/// The agent's component joins another cluster.
fn components_are_in_deployments_of_others(terminal: &Terminal, hub: &Hub) {
    let foreign = root().join("testing/foreign").canonicalize().expect("its path");
    let foreign = foreign.display();
    terminal.run(&format!(
        "kubectl --context cluster1 create namespace foreign
        kubectl --context cluster1 label namespace foreign pod-security.kubernetes.io/enforce=restricted
        kubectl --context cluster1 -n foreign create secret generic bootstrap-hub-kubeconfig \\
            --from-file kubeconfig=bootstrap.kubeconfig
        kubectl --context cluster1 -n foreign apply -f manifests/csr-bootstrapper/secrets/secrets.yaml
        kubectl --context cluster1 apply -k {foreign}/lease
        kubectl --context cluster1 apply -k {foreign}/agent"
    ));
    hub.approve_next("cluster7");
    hub.accept("cluster7");
    terminal.roll_out("foreign", "lease-app");
    terminal.roll_out("foreign", "agent-app");
}

/// The hub is also the cluster that joins, so that its pods need no way to a third one.
fn csr_bootstrapper_is_hosted(terminal: &Terminal) {
    let before = terminal.requests();
    terminal.run(&format!(
        "{AGENTS} delete deployment csr-bootstrapper
        kubectl --context cluster1 label namespace open-cluster-management-agent-addon \\
            pod-security.kubernetes.io/enforce=restricted
        kubectl --context hub apply -k manifests/namespaces
        kubectl --context hub apply -k manifests/csr-bootstrapper-hosted/spoke
        TOKEN=$(kubectl --context hub -n {NAMESPACE} create token csr-bootstrapper)
        cp bootstrap.kubeconfig spoke.kubeconfig
        kubectl --kubeconfig spoke.kubeconfig config set-credentials bootstrap --token \"$TOKEN\"
        {AGENTS} create secret generic external-managed-kubeconfig-registration --from-file kubeconfig=spoke.kubeconfig
        kubectl --context cluster1 apply -k manifests/csr-bootstrapper-hosted
        kubectl --context cluster1 apply -k manifests/csr-bootstrapper-hosted/addons"
    ));
    terminal.roll_out(NAMESPACE, "csr-bootstrapper");
    terminal.wait_for_heartbeat();
    assert_eq!(terminal.requests(), before);
}

fn an_outage_of_the_hub_restarts_nothing(terminal: &Terminal) {
    terminal.run(&format!(
        "ip address del 10.97.0.1/32 dev node0
        ! kubectl --context hub --request-timeout 2s get namespaces
        sleep {PROBES}
        ip address add 10.97.0.1/32 dev node0
        until kubectl --context hub get --raw /readyz; do sleep 1; done"
    ));
    terminal.wait_for_heartbeat();
    let restarts =
        terminal.run("kubectl --context cluster1 get pods -A -o yaml | grep restartCount:");
    assert!(restarts.lines().all(|line| line.trim() == "restartCount: 0"), "{restarts}");
}
