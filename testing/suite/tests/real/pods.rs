//! The kubelet, played: pods of Deployments, and the programs in them.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use suite::sidecar::{Sidecar, VERBOSE, bare, free_port, program};
use tempfile::TempDir;

/// The Deployments of the context cluster1 that have a pod, and their programs.
pub(crate) struct Pods {
    kubeconfig: PathBuf,
    directory: TempDir,
    /// By namespace and name.
    running: BTreeMap<(String, String), Vec<Sidecar>>,
}

impl Pods {
    pub(crate) fn of(kubeconfig: &Path) -> Self {
        let directory = TempDir::new().expect("a directory");
        Self { kubeconfig: kubeconfig.to_owned(), directory, running: BTreeMap::new() }
    }

    /// Where a Deployment's files of the hub are.
    pub(crate) fn volume(&self, deployment: &str) -> PathBuf {
        self.directory.path().join(deployment)
    }

    /// The logs of all programs, for a failure.
    pub(crate) fn log(&self) -> String {
        self.running.values().flatten().map(Sidecar::log).collect::<Vec<_>>().join("\n\n")
    }

    fn of_deployment(&self, deployment: &str) -> &Sidecar {
        let is_it = |((_, name), _): &(&(String, String), &Vec<Sidecar>)| name == deployment;
        let (_, programs) = self.running.iter().find(is_it).expect("a pod");
        programs.first().expect("a program of ours")
    }

    /// What the program in a Deployment's pod has logged.
    pub(crate) fn log_of(&self, deployment: &str) -> String {
        self.of_deployment(deployment).log()
    }

    /// Where its endpoint is.
    pub(crate) fn port_of(&self, deployment: &str) -> u16 {
        self.of_deployment(deployment).port
    }

    /// Ends the programs of the Deployments of this name.
    pub(crate) fn stop(&mut self, deployment: &str) {
        self.running.retain(|(_, name), _| name != deployment);
    }

    /// Starts what has been applied since.
    pub(crate) fn start_new(&mut self) {
        for deployment in items(&self.kubectl(&["get", "deployments", "-A", "-o", "json"], "")) {
            let metadata = &deployment["metadata"];
            let text = |field: &str| metadata[field].as_str().expect("a text").to_owned();
            let key = (text("namespace"), text("name"));
            if !self.running.contains_key(&key) {
                let programs = self.start(&key, &deployment["spec"]["template"]);
                self.running.insert(key, programs);
            }
        }
    }

    /// Makes the pod, calls it and the Deployment ready, and starts our containers of it.
    fn start(&self, (namespace, name): &(String, String), template: &Value) -> Vec<Sidecar> {
        let pod = format!("{name}-0");
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
            "metadata": {"name": pod, "namespace": namespace, "labels": template["metadata"]["labels"]},
        });
        self.kubectl(&["apply", "-f", "-"], &object.to_string());
        let containers = template["spec"]["containers"].as_array().expect("containers");
        let ready = |container: &Value| json!({"name": container["name"], "ready": true, "image": "", "imageID": "", "restartCount": 0});
        let status = json!({"status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": containers.iter().map(ready).collect::<Vec<_>>(),
        }});
        let patch = status.to_string();
        let arguments = [
            "-n",
            namespace,
            "patch",
            "pod",
            &pod,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        self.kubectl(&arguments, "");
        // Its first generation; kubectl waits for what its controller says.
        let patch = json!({"status": {
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        }});
        let patch = patch.to_string();
        let of_deployment =
            ["patch", "deployment", name, "--subresource=status", "--type=merge", "-p", &patch];
        self.kubectl(&[&["-n", namespace][..], &of_deployment].concat(), "");
        let starting = template["spec"]["initContainers"].as_array().into_iter().flatten();
        let all = starting.chain(containers);
        let ours = all
            .filter(|it| it["image"].as_str().is_some_and(|it| it.starts_with("spoke-sidecars:")));
        ours.map(|container| self.spawn(namespace, name, template, container)).collect()
    }

    fn spawn(&self, namespace: &str, name: &str, template: &Value, container: &Value) -> Sidecar {
        let executable = container["command"][0].as_str().expect("a command");
        let mut command = bare(&program(executable.rsplit('/').next().expect("a name")));
        let environment = environment(namespace, &format!("{name}-0"), container);
        command.envs(&environment);
        for argument in container["args"].as_array().into_iter().flatten() {
            let argument = argument.as_str().expect("a text").to_owned();
            command.arg(environment.iter().fold(argument, |argument, (name, value)| {
                self.place(namespace, &argument.replace(&format!("$({name})"), value))
            }));
        }
        if executable.ends_with("/hub-kubeconfig-dumper") {
            command.arg(format!("-hub-kubeconfig-dir={}", self.volume(name).display()));
        }
        let account = template["spec"]["serviceAccountName"].as_str().expect("a ServiceAccount");
        let port = free_port();
        command.arg(format!("-kubeconfig={}", self.credential(namespace, account).display()));
        command.arg(format!("-metrics-port={port}")).args(VERBOSE);
        Sidecar::spawn(command, port)
    }

    /// An argument with the files of the Secret of an add-on, where it names them as its pod would have them.
    fn place(&self, namespace: &str, argument: &str) -> String {
        const MOUNT: &str = "/managed/hub-kubeconfig";
        if !argument.contains(MOUNT) {
            return argument.to_owned();
        }
        let directory = self.directory.path().join("managed");
        fs::create_dir_all(&directory).expect("a directory");
        for key in ["kubeconfig", "tls.crt", "tls.key"] {
            let path = format!("go-template={{{{index .data \"{key}\" | base64decode}}}}");
            let secret = "remote-sync-hub-kubeconfig";
            let value = self.kubectl(&["-n", namespace, "get", "secret", secret, "-o", &path], "");
            fs::write(directory.join(key), value).expect("a file");
        }
        argument.replace(MOUNT, &directory.to_string_lossy())
    }

    /// A kubeconfig with a token of a ServiceAccount.
    fn credential(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.kubectl(&["-n", namespace, "create", "token", account], "");
        let config = fs::read_to_string(&self.kubeconfig).expect("the kubeconfig");
        let mut config: Value = serde_json::from_str(&config).expect("JSON");
        config["current-context"] = json!("cluster1");
        for user in config["users"].as_array_mut().expect("users") {
            user["user"] = json!({"token": token.trim()});
        }
        let path = self.directory.path().join(format!("{namespace}.{account}.kubeconfig"));
        fs::write(&path, config.to_string()).expect("the kubeconfig");
        path
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let mut child = Command::new("kubectl")
            .args(["--context", "cluster1"])
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl");
        child.stdin.take().expect("its stdin").write_all(input.as_bytes()).expect("its input");
        let output = child.wait_with_output().expect("its output");
        assert!(output.status.success(), "kubectl {arguments:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

fn items(list: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(list).expect("JSON");
    list["items"].as_array().cloned().unwrap_or_default()
}

/// What a container has in its environment.
fn environment(namespace: &str, pod: &str, container: &Value) -> BTreeMap<String, String> {
    let variables = container["env"].as_array().into_iter().flatten();
    let value = |variable: &Value| match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        Some("metadata.namespace") => namespace.to_owned(),
        Some("metadata.name") => pod.to_owned(),
        Some(other) => panic!("{other} is not played"),
        None => variable["value"].as_str().unwrap_or_default().to_owned(),
    };
    variables.map(|it| (it["name"].as_str().expect("a name").to_owned(), value(it))).collect()
}
