//! The quick starts of the READMEs, command by command on the real control plane, and the OCM add-on. There is no
//! kubelet: where a Deployment is applied, its pod is made and called ready, and the programs in it are started with the
//! arguments, the environment and the ServiceAccount that it gives them.
//!
//! A block that runs stands between `<!-- quickstart:NAME -->` and the end of its fence; what needs a machine of another
//! sort (kind, k3s, clusteradm) stands below `<!-- quickstart:not-run -->`, and is not run.

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command};

use serde_json::{Value, json};
use suite::{
    audit::{self, assert_none_is_missing, assert_used, granted, is_in_group, is_of_account, text},
    eventually,
    needs::{Need, needs},
    ocm::Hub,
    within,
};
use tempfile::TempDir;

use crate::{pods::Pods, root};

/// Seconds until OCM's controllers did what they have to.
const PATIENCE: u64 = 90;

/// The commands of a block: lines, with those that go on after a backslash.
fn commands(file: &str, name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(file)).expect("a README");
    let marker = format!("<!-- quickstart:{name} -->\n```sh\n");
    let block = text.split_once(&marker).unwrap_or_else(|| panic!("{file} has no {marker}")).1;
    let block = block.split_once("```").expect("the end of the fence").0;
    let joined = block.replace("\\\n", " ");
    let lines =
        joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// A directory with a clone's manifests, and a kubeconfig with the contexts hub and cluster1.
struct Clone {
    directory: TempDir,
    /// Assignments to variables of the shell.
    variables: Vec<String>,
    /// Of the last `port-forward` for each port: the port on a page, and the program's here.
    forwarded: Vec<(String, u16)>,
    pods: Pods,
}

impl Clone {
    fn new() -> Self {
        let directory = TempDir::new().expect("a directory");
        symlink(
            root().join("manifests").canonicalize().expect("its path"),
            directory.path().join("manifests"),
        )
        .expect("a link");
        let e2e = PathBuf::from(std::env::var_os("E2E_DIR").expect("E2E_DIR"));
        let mut config = json!({
            "apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": [],
        });
        for (context, cluster) in [("hub", "hub"), ("cluster1", "managed")] {
            let text = fs::read_to_string(e2e.join(cluster).join("admin.kubeconfig"))
                .expect("a kubeconfig");
            let one: Value = serde_yaml::from_str(&text).expect("YAML");
            let mut add = |list: &str, part: &str| {
                let value = json!({"name": context, part: one[list][0][part]});
                config[list].as_array_mut().expect("a list").push(value);
            };
            add("clusters", "cluster");
            add("users", "user");
            let value = json!({"name": context, "context": {"cluster": context, "user": context}});
            config["contexts"].as_array_mut().expect("a list").push(value);
        }
        let path = directory.path().join("config");
        fs::write(&path, config.to_string()).expect("the kubeconfig");
        let pods = Pods::of(&path);
        Self { directory, variables: Vec::new(), forwarded: Vec::new(), pods }
    }

    /// Runs a block; what its last command printed.
    fn follow(&mut self, file: &str, name: &str) -> String {
        let mut last = String::new();
        for command in commands(file, name) {
            last = self.run(&command);
            self.pods.start_new();
        }
        last
    }

    fn run(&mut self, command: &str) -> String {
        println!("$ {command}");
        let printed = self.answer(command);
        println!("{printed}");
        printed
    }

    /// What a command prints; of an assignment nothing, as that is a token.
    fn answer(&mut self, command: &str) -> String {
        if let Some((name, value)) =
            command.split_once("=$(").filter(|(name, _)| !name.contains(' '))
        {
            let value = self.shell(value.strip_suffix(')').expect("one assignment"));
            self.variables.push(format!("{name}='{value}'"));
            return String::new();
        }
        let (subject, rest) = command.split_once(" deployment/").unwrap_or((command, ""));
        let deployment = rest.split(' ').next().unwrap_or_default();
        match subject.rsplit(' ').next() {
            // The files of the pod are elsewhere here.
            Some("exec") => {
                let (_, command) = rest.split_once(" -- ").expect("a command");
                let volume = self.pods.volume(deployment);
                eventually("the files are there", || volume.join("kubeconfig").exists());
                self.shell(&command.replace("/spoke/hub-kubeconfig", &volume.to_string_lossy()))
            }
            Some("logs") => self.pods.log_of(deployment),
            // What it says comes from the kubelet's machine, and it stays until it is stopped.
            Some("port-forward") => {
                let port = rest.split(' ').nth(1).expect("a port");
                self.forwarded.push((port.to_owned(), self.pods.port_of(deployment)));
                String::new()
            }
            _ if command.starts_with("curl ") => {
                let here = |command: String, (there, here): &(String, u16)| {
                    command.replace(&format!("localhost:{there}/"), &format!("localhost:{here}/"))
                };
                let command = self.forwarded.iter().fold(command.to_owned(), here);
                self.shell(&command.replace("curl ", "curl --fail --no-progress-meter "))
            }
            // Until it is stopped.
            _ if command.contains(" -w ") => {
                self.shell(&format!("timeout 5 {command} || [ $? = 124 ]"))
            }
            _ => self.shell(command),
        }
    }

    fn shell(&self, command: &str) -> String {
        let script = format!("{}\n{command}", self.variables.join("\n"));
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(self.directory.path())
            .env("KUBECONFIG", self.directory.path().join("config"))
            .output()
            .expect("bash");
        let [out, error] =
            [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).trim().to_owned());
        assert!(output.status.success(), "{command}: {error}\n{}", self.pods.log());
        out
    }
}

#[test]
#[ignore = "needs the real control plane to itself"]
fn quick_starts_of_each_program_and_the_add_on() {
    if !needs(Need::Real, "quick starts are for real clusters") {
        return;
    }
    let hub = Hub::new();
    let mut clone = Clone::new();
    let readme = |program: &str| format!("bins/{program}/README.md");
    let clusters = clone.follow(&readme("csr-bootstrapper"), "csr-bootstrapper");
    let columns: Vec<_> = clusters.lines().last().expect("a cluster").split_whitespace().collect();
    assert_eq!((columns[0], &columns[2..4]), ("cluster1", &["True", "True"][..]), "{clusters}");
    let answer = clone.follow(&readme("csr-bootstrapper"), "csr-bootstrapper-check");
    assert_eq!(answer, "ok");
    let name = clone.follow(&readme("hub-kubeconfig-dumper"), "hub-kubeconfig-dumper");
    assert_eq!(name, "cluster1");
    let answer = clone.follow(&readme("hub-kubeconfig-dumper"), "hub-kubeconfig-dumper-check");
    assert_eq!(answer, "ok");
    let lease = clone.follow(&readme("addon-lease-controller"), "addon-lease-controller");
    assert!(lease.contains("my-addon"), "{lease}");
    let answer = clone.follow(&readme("addon-lease-controller"), "addon-lease-controller-check");
    assert_eq!(answer, "ok");
    let widgets = clone.follow(&readme("remote-sync"), "remote-sync");
    assert!(widgets.lines().last().is_some_and(|line| line.starts_with("blue ")), "{widgets}");
    let state = clone.follow(&readme("remote-sync"), "remote-sync-follow");
    assert!(state.starts_with("ok") && state.contains("widgets.example.com"), "{state}");
    let pairs = clone.follow(&readme("remote-sync"), "remote-sync-check");
    assert!(pairs.contains("state=\"insync\"} 1"), "{pairs}");
    each_right_of_remote_sync_is_used(&mut clone);
    the_add_on_syncs(&mut clone, &hub);
    let modes = clone.follow(&readme("addon-lease-controller"), "addon-lease-controller-mode");
    assert!(modes.contains("remote-sync"), "{modes}");
    no_right_is_missing();
}

/// With what the manifests grant, nothing was forbidden on either cluster.
fn no_right_is_missing() {
    let accounts = ["csr-bootstrapper", "my-agent", "my-addon", "remote-sync"];
    for account in accounts {
        let requests = audit::requests("managed", |event| is_of_account(event, account));
        assert_none_is_missing(&requests);
    }
    // csr-bootstrapper asks before the hub has given it its rights.
    for group in ["cluster1", "addon:remote-sync"] {
        let group = format!("system:open-cluster-management:{group}");
        let requests = audit::requests("hub", |event| {
            text(event, "/userAgent").starts_with("remote-sync/") && is_in_group(event, &group)
        });
        assert_none_is_missing(&requests);
    }
}

/// Leads widgets through their lives; what the manifests grant is then used, by the audit logs.
fn each_right_of_remote_sync_is_used(clone: &mut Clone) {
    let uid = clone
        .run("kubectl --context cluster1 -n widgets get widget blue -o 'jsonpath={.metadata.uid}'");
    let owner = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "blue", "uid": uid, "controller": true,
    });
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"token": "1"},
        "metadata": {"name": "widget-token", "namespace": "widgets", "ownerReferences": [owner]},
    });
    fs::write(clone.directory.path().join("token.json"), token.to_string()).expect("the Secret");
    let widget = |name: &str| {
        format!(
            "sed 's/name: blue/name: {name}/' manifests/examples/widgets/widget.yaml | kubectl --context hub apply -f -"
        )
    };
    for command in [
        "kubectl --context cluster1 -n widgets patch widget blue --subresource status --type merge -p '{\"status\":{\"phase\":\"Ready\"}}'",
        "kubectl --context hub -n cluster1 wait --for=jsonpath='{.status.phase}'=Ready widget/blue --timeout=60s",
        "kubectl --context cluster1 apply -f token.json",
        "kubectl --context hub -n cluster1 wait --for=create secret/widget-token --timeout=60s",
        "kubectl --context cluster1 -n widgets patch secret widget-token --type merge -p '{\"data\":{\"token\":\"Mg==\"}}'",
        "kubectl --context hub -n cluster1 wait --for=jsonpath='{.data.token}'=Mg== secret/widget-token --timeout=60s",
        "kubectl --context hub -n cluster1 patch widget blue --type merge -p '{\"spec\":{\"size\":5}}'",
        "kubectl --context cluster1 -n widgets wait --for=jsonpath='{.spec.size}'=5 widget/blue --timeout=60s",
        // Two deletions are counted, and one widget is somebody else's.
        &widget("red"),
        &widget("green"),
        "kubectl --context cluster1 -n widgets wait --for=create widget/red widget/green --timeout=60s",
        "kubectl --context hub -n cluster1 delete widget red --timeout=60s",
        "kubectl --context hub -n cluster1 delete widget green --timeout=60s",
        "sed 's/name: blue/name: gray/; s/: cluster1/: widgets/; s/size: 3/size: 9/' manifests/examples/widgets/widget.yaml | kubectl --context cluster1 apply -f -",
        &widget("gray"),
        "until kubectl --context hub -n cluster1 get events -o name | grep gray; do sleep 1; done",
        "kubectl --context hub -n cluster1 delete widget gray --timeout=60s",
    ] {
        clone.run(command);
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

/// OCM's add-on manager makes of manifests/remote-sync/addon what remote-sync needs on a cluster; the work agent, which
/// is not here, is played.
fn the_add_on_syncs(clone: &mut Clone, hub: &Hub) {
    clone.pods.stop("remote-sync");
    for command in [
        "kubectl --context cluster1 delete deployment,pod -n open-cluster-management-agent --all --ignore-not-found --grace-period=0 --force",
        "kubectl --context cluster1 apply -k manifests/csr-bootstrapper/addons",
        "kubectl --context hub apply -k manifests/remote-sync/addon",
    ] {
        clone.run(command);
    }
    hub.add_addon("cluster1", "remote-sync", "open-cluster-management-agent-addon");
    let wait = |clone: &mut Clone, what: &str| {
        clone.run(&format!("kubectl {what} --timeout={PATIENCE}s"));
    };
    let secret = "--context cluster1 -n open-cluster-management-agent-addon wait --for=create secret/remote-sync-hub-kubeconfig";
    wait(clone, secret);
    wait(
        clone,
        "--context hub -n cluster1 wait --for=create rolebinding/open-cluster-management:remote-sync:clusterrole:agent",
    );
    let work = within(PATIENCE, "there is a ManifestWork", || {
        let listed = clone.shell("kubectl --context hub -n cluster1 get manifestworks -l open-cluster-management.io/addon-name=remote-sync -o json");
        let list: Value = serde_json::from_str(&listed).expect("JSON");
        Some(list["items"][0]["spec"]["workload"]["manifests"].clone()).filter(Value::is_array)
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": work});
    fs::write(clone.directory.path().join("work.json"), list.to_string()).expect("the work");
    clone.run("kubectl --context cluster1 apply -f work.json");
    clone.pods.start_new();
    clone.run("kubectl --context hub -n cluster1 patch widget blue --type merge -p '{\"spec\":{\"size\":4}}'");
    wait(clone, "--context cluster1 -n widgets wait --for=jsonpath='{.spec.size}'=4 widget/blue");
}

#[test]
#[ignore = "needs the real control plane to itself"]
fn quick_start_of_all() {
    if !needs(Need::Real, "quick starts are for real clusters") {
        return;
    }
    let _hub = Hub::new();
    let mut clone = Clone::new();
    let widgets = clone.follow("README.md", "all");
    assert!(widgets.lines().last().is_some_and(|line| line.starts_with("blue ")), "{widgets}");
}
