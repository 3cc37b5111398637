//! The quick start of all, and what comes after it: a pod is deleted, and the klusterlet operator installs OCM's
//! agents.

use std::fs;

use serde_json::{Value, json};
use suite::{
    audit,
    cluster::Cluster,
    needs::{Need, needs},
    ocm::Hub,
    spoke::klusterlet::operate,
};

use crate::{AGENTS, Terminal, quickstart::no_right_is_missing, root};

#[test]
#[ignore = "needs a control plane with a node to itself"]
fn quick_start_of_all_survives_a_successor_and_a_klusterlet() {
    let terminal = Terminal::open();
    let hub = Hub::new();
    let widgets = terminal.follow("README.md", "all");
    assert!(widgets.lines().last().is_some_and(|line| line.starts_with("blue ")), "{widgets}");
    hub.set_lease_duration("cluster1", 5);
    a_successor_needs_no_request(&terminal);
    no_right_is_missing(&["csr-bootstrapper", "my-agent", "remote-sync"]);
    agents_of_ocm_run_in_the_same_namespace(&terminal, &hub);
}

/// Changes the widget on the hub, and waits for its copy.
fn set_size(terminal: &Terminal, size: u32) {
    terminal.run(&format!(
        "kubectl --context hub -n cluster1 patch widget blue --type merge -p '{{\"spec\":{{\"size\":{size}}}}}'
        kubectl --context cluster1 -n widgets wait --for jsonpath='{{.spec.size}}'={size} widget/blue --timeout 120s"
    ));
}

fn a_successor_needs_no_request(terminal: &Terminal) {
    let before = terminal.requests();
    terminal.run(&format!(
        "{AGENTS} delete pod -l app.kubernetes.io/name=csr-bootstrapper --timeout 120s"
    ));
    terminal.roll_out("open-cluster-management-agent", "csr-bootstrapper");
    terminal.wait_for_heartbeat();
    assert_eq!(terminal.requests(), before);
}

/// The klusterlet operator installs OCM's work agent, and first our program, then OCM's own as the registration agent.
/// They take over cluster and Secret without a new certificate; the work agent installs an add-on.
fn agents_of_ocm_run_in_the_same_namespace(terminal: &Terminal, hub: &Hub) {
    let before = terminal.requests();
    terminal.run(&format!("{AGENTS} delete deployment csr-bootstrapper remote-sync"));
    operate(&Cluster::real("managed"));
    let klusterlet = json!({
        "apiVersion": "operator.open-cluster-management.io/v1", "kind": "Klusterlet",
        "metadata": {"name": "klusterlet"},
        "spec": {
            "clusterName": "cluster1", "namespace": "open-cluster-management-agent",
            "registrationImagePullSpec": "spoke-sidecars:dev",
            "workImagePullSpec": "quay.io/open-cluster-management/work:dev",
        },
    });
    terminal.run(&format!("kubectl --context cluster1 apply -f - <<'END'\n{klusterlet}\nEND"));
    for agent in ["klusterlet-registration-agent", "klusterlet-work-agent"] {
        // The operator gives the work agent a replica after a while: until then there is nothing to roll out.
        terminal.run(&format!(
            "{AGENTS} wait --for create deployment/{agent} --timeout 120s
            {AGENTS} wait --for jsonpath='{{.status.readyReplicas}}'=1 deployment/{agent} --timeout 120s"
        ));
    }
    terminal.wait_for_heartbeat();
    assert_eq!(terminal.requests(), before);
    the_work_agent_installs_an_add_on(terminal, hub);
    prometheus_finds_the_operators_pods(terminal);

    let before = terminal.requests();
    let image = "quay.io/open-cluster-management/registration:dev";
    terminal.run(&format!(
        "kubectl --context cluster1 patch klusterlet klusterlet --type merge -p '{{\"spec\":{{\"registrationImagePullSpec\":\"{image}\"}}}}'
        {AGENTS} wait --for jsonpath='{{.spec.template.spec.containers[0].image}}'={image} deployment/klusterlet-registration-agent --timeout 120s"
    ));
    terminal.roll_out("open-cluster-management-agent", "klusterlet-registration-agent");
    terminal.wait_for_heartbeat();
    assert_eq!(terminal.requests(), before);
}

/// By the page's configuration, whose labels and ports a test holds to those of the PodMonitors. Prometheus is told the
/// pods by a file, in the words of its discovery.
fn prometheus_finds_the_operators_pods(terminal: &Terminal) {
    if !needs(Need::Tool(&["promtool", "--version"]), "there is no promtool") {
        return;
    }
    let pods = terminal.run("kubectl --context cluster1 get pods -A -o json");
    let pods: Value = serde_json::from_str(&pods).expect("JSON");
    let pods: Vec<_> = pods["items"].as_array().expect("pods").iter().map(discovered).collect();
    let write = |name, text: String| {
        fs::write(terminal.directory.path().join(name), text).expect("a file");
    };
    write("pods.json", json!(pods).to_string());
    let page = fs::read_to_string(root().join("docs/operations.md")).expect("the page");
    let (_, config) = page.split_once("<!-- scrape config -->\n```yaml\n").expect("the block");
    let (config, _) = config.split_once("```").expect("its end");
    let config = config.replace("kubernetes_sd_configs", "file_sd_configs");
    write("prometheus.yaml", config.replace("role: pod", "files: [pods.json]"));
    let found =
        terminal.run("promtool check service-discovery --timeout 5s prometheus.yaml klusterlet");
    let (_, found) = found.split_once("[\n").expect("targets");
    let found: Value = serde_json::from_str(&format!("[{found}")).expect("JSON");
    let targets = found.as_array().expect("targets").iter().map(|target| &target["labels"]);
    let targets: Vec<_> = targets.filter(|labels| labels["__address__"].is_string()).collect();
    let of = |container: &str| {
        let mut of_it = targets.iter().filter(|labels| labels["container"] == container);
        of_it.next().and_then(|labels| labels["__address__"].as_str()).expect("its address")
    };
    assert_eq!(targets.len(), 2, "{targets:?}");
    terminal.run(&format!("curl -sf http://{}/metrics", of("registration-controller")));
    assert!(of("klusterlet-manifestwork-agent").ends_with(":8388"), "{targets:?}");
}

/// A pod without ports as Prometheus' discovery shows it.
fn discovered(pod: &Value) -> Value {
    let address = &pod["status"]["podIP"];
    json!({"targets": [address], "labels": {
        "__meta_kubernetes_namespace": pod["metadata"]["namespace"],
        "__meta_kubernetes_pod_container_name": pod["spec"]["containers"][0]["name"],
        "__meta_kubernetes_pod_ip": address,
        "__meta_kubernetes_pod_label_app":
            pod["metadata"]["labels"]["app"].as_str().unwrap_or_default(),
        "__meta_kubernetes_pod_name": pod["metadata"]["name"],
    }})
}

/// remote-sync as an add-on, from its template on the hub to its pod, with its own credential.
fn the_work_agent_installs_an_add_on(terminal: &Terminal, hub: &Hub) {
    terminal.run("kubectl --context hub apply -k manifests/remote-sync/addon");
    hub.add_addon("cluster1", "remote-sync", "open-cluster-management-agent-addon");
    terminal.run(
        "kubectl --context cluster1 -n open-cluster-management-agent-addon wait --for create deployment/remote-sync --timeout 120s",
    );
    terminal.roll_out("open-cluster-management-agent-addon", "remote-sync");
    set_size(terminal, 4);
    let modes = terminal.follow_program("addon-lease-controller", "addon-lease-controller-mode");
    assert!(modes.contains("remote-sync"), "{modes}");
    let group = "system:open-cluster-management:addon:remote-sync";
    let requests = audit::requests("hub", |event| audit::is_in_group(event, group));
    audit::assert_none_is_missing(&requests);
}
