//! manifests/, the quick starts and OCM's own agents as pods of a real kubelet, joined to a real hub. Each test needs a
//! control plane of its own, booted with `NODE=1`.

mod bases;
mod klusterlet;
mod quickstart;
mod takeover;

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::PathBuf,
    process::Command,
    time::Instant,
};

use serde_json::{Value, json};
use suite::within;
use tempfile::TempDir;

/// The namespace of the agents.
const AGENTS: &str = "kubectl --context cluster1 -n open-cluster-management-agent";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A block of commands, between `<!-- quickstart:NAME -->` and the end of its fence.
fn block(file: &str, name: &str) -> String {
    let text = fs::read_to_string(root().join(file)).expect("a README");
    let marker = format!("<!-- quickstart:{name} -->\n```sh\n");
    let block = text.split_once(&marker).unwrap_or_else(|| panic!("{file} has no {marker}")).1;
    block.split_once("```").expect("the end of the fence").0.to_owned()
}

/// A shell in a directory with a clone's manifests, and a kubeconfig with the contexts hub and cluster1.
struct Terminal {
    directory: TempDir,
}

impl Terminal {
    fn open() -> Self {
        assert!(std::env::var_os("NODE").is_some(), "needs NODE=1 testing/controlplane/run.sh");
        let directory = TempDir::new().expect("a directory");
        let manifests = root().join("manifests").canonicalize().expect("its path");
        symlink(manifests, directory.path().join("manifests")).expect("a link");
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
        fs::write(directory.path().join("config"), config.to_string()).expect("the kubeconfig");
        Self { directory }
    }

    /// Runs a block of a README unchanged; returns its output.
    fn follow(&self, file: &str, name: &str) -> String {
        // A person stops what watches.
        let stopped = |line: &str| match line.contains(" -w ") {
            true => format!("timeout 5 {line} || [ $? = 124 ]"),
            false => line.to_owned(),
        };
        let lines: Vec<_> = block(file, name).lines().map(stopped).collect();
        self.run(&lines.join("\n"))
    }

    /// The same of the README of a program.
    fn follow_program(&self, program: &str, name: &str) -> String {
        self.follow(&format!("bins/{program}/README.md"), name)
    }

    /// Runs a script; what it printed.
    fn run(&self, script: &str) -> String {
        println!("{script}\n---");
        let start = Instant::now();
        let (success, printed) = self.shell(script);
        println!("{:.1} s", start.elapsed().as_secs_f64());
        println!("{printed}");
        if !success {
            println!("{}", self.shell("kubectl --context cluster1 get pods,events -A").1);
            println!("{}", self.shell("tail -n 25 $E2E_DIR/managed/pods/*/*/*.log").1);
        }
        assert!(success, "{script}");
        printed.trim().to_owned()
    }

    fn shell(&self, script: &str) -> (bool, String) {
        // No pipe: a tunnel that stays would keep it open.
        let path = self.directory.path().join("printed");
        let file = File::create(&path).expect("a file");
        let errors = file.try_clone().expect("the file again");
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", script]).current_dir(self.directory.path());
        bash.env("KUBECONFIG", self.directory.path().join("config")).stdout(file).stderr(errors);
        let success = bash.status().expect("bash").success();
        (success, String::from_utf8_lossy(&fs::read(path).expect("the file")).into_owned())
    }

    /// Waits until all pods of a Deployment are ready, with all probes that they have.
    fn roll_out(&self, namespace: &str, deployment: &str) {
        self.run(&format!(
            "kubectl --context cluster1 -n {namespace} rollout status deployment/{deployment} --timeout 120s"
        ));
    }

    /// How many requests for certificates there are on the hub.
    fn requests(&self) -> usize {
        self.run("kubectl --context hub get csr -o name").lines().count()
    }

    /// Waits until the agent of cluster1 gives a sign of life, which the tests let it do every 5 seconds.
    fn wait_for_heartbeat(&self) {
        let lease = "kubectl --context hub -n cluster1 get lease managed-cluster-lease -o 'jsonpath={.spec.renewTime}'";
        let before = self.run(lease);
        within(120, "it renews its Lease", || self.shell(lease).1.trim() != before);
    }
}
