//! A container of a Deployment as a kubelet would run it, but for its network and its users: command line,
//! environment, volumes and service account are those of the object, and its root is read-only if that says so. Its
//! ports are those of the machine.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use apiclient::resource::SECRETS;
use rustls::DEFAULT_VERSIONS;
use serde_json::Value;
use suite::{
    https, identity,
    sidecar::{Sidecar, bare},
    spoke::Spoke,
    within,
};

const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(super) struct Container<'a> {
    spoke: &'a Spoke,
    namespace: String,
    pod: Value,
    stage: PathBuf,
    /// Its ports are fixed: one container at a time.
    _turn: MutexGuard<'static, ()>,
}

impl<'a> Container<'a> {
    /// That of this Deployment; what its volumes take from Secrets is as of now.
    pub(super) fn of(spoke: &'a Spoke, deployment: &Value) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = deployment["metadata"]["namespace"].as_str().expect("a namespace");
        let stage = spoke.directory.path().join("container");
        let pod = deployment["spec"]["template"]["spec"].clone();
        let container = Self { spoke, namespace: namespace.to_owned(), pod, stage, _turn: turn };
        container.write_account();
        container.write_secrets();
        container
    }

    fn container(&self) -> &Value {
        &self.pod["containers"][0]
    }

    /// The whole command line.
    pub(super) fn command_line(&self) -> Vec<&str> {
        let container = self.container();
        let words = ["command", "args"].map(|list| container[list].as_array());
        words.into_iter().flatten().flatten().map(|word| word.as_str().expect("a text")).collect()
    }

    /// Its service account.
    pub(super) fn account(&self) -> &str {
        self.pod["serviceAccountName"].as_str().expect("a service account")
    }

    fn write_account(&self) {
        let directory = self.stage.join("account");
        fs::create_dir_all(&directory).expect("a directory");
        let token = identity::token(&self.spoke.managed, &self.namespace, self.account());
        let files =
            [("token", &token), ("ca.crt", &self.spoke.managed.ca), ("namespace", &self.namespace)];
        for (name, text) in files {
            fs::write(directory.join(name), text).expect("a file");
        }
    }

    fn write_secrets(&self) {
        for volume in self.pod["volumes"].as_array().into_iter().flatten() {
            let Some(secret) = volume["secret"]["secretName"].as_str() else { continue };
            let directory = self.volume(volume["name"].as_str().expect("a name"));
            fs::create_dir_all(&directory).expect("a directory");
            let target = SECRETS.object(&self.namespace, secret);
            let secret = self.spoke.managed.get(&target).expect("the Secret of a volume");
            for (key, value) in kubeconfig::secret::data(&secret).expect("base64") {
                fs::write(directory.join(key), value).expect("a file");
            }
        }
    }

    fn volume(&self, name: &str) -> PathBuf {
        self.stage.join("volumes").join(name)
    }

    /// The shell's lines that make its root and enter it.
    fn script(&self) -> String {
        let root = self.stage.join("root");
        fs::create_dir_all(&root).expect("a directory");
        let root = root.display();
        let mut lines = vec![
            format!("mount -t tmpfs none {root}"),
            // Programs that are not static need these.
            format!(
                "for d in bin lib lib64 usr etc dev proc sys; do [ ! -d /$d ] || \
                 {{ mkdir {root}/$d; mount --rbind /$d {root}/$d; }}; done"
            ),
            format!("touch {root}/registration; mount --bind $PROGRAM {root}/registration"),
            bind(&self.stage.join("account"), &format!("{root}{ACCOUNT}")),
        ];
        let volumes = self.pod["volumes"].as_array().expect("volumes");
        for mount in self.container()["volumeMounts"].as_array().expect("mounts") {
            let path = format!("{root}{}", mount["mountPath"].as_str().expect("a path"));
            let is_it = |volume: &&Value| volume["name"] == mount["name"];
            let volume = volumes.iter().find(is_it).expect("the volume of a mount");
            if volume["emptyDir"].is_object() {
                lines.push(format!("mkdir -p {path}; mount -t tmpfs none {path}"));
            } else {
                let name = volume["name"].as_str().expect("a name");
                lines.push(bind(&self.volume(name), &path));
            }
        }
        if self.container()["securityContext"]["readOnlyRootFilesystem"] == true {
            lines.push(format!("mount -o remount,ro {root}"));
        }
        lines.push(format!("exec env -i {} chroot {root} \"$@\"", self.environment()));
        lines.join("\n")
    }

    fn environment(&self) -> String {
        let address = self.spoke.managed_relay.address;
        let mut words = vec![
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            format!("KUBERNETES_SERVICE_HOST={}", address.ip()),
            format!("KUBERNETES_SERVICE_PORT={}", address.port()),
        ];
        for variable in self.container()["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().expect("a name");
            let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
            let value = match field {
                Some("metadata.name") => "the-pod",
                Some(field) => panic!("{name} is {field}"),
                None => variable["value"].as_str().expect("a value"),
            };
            words.push(format!("{name}={value}"));
        }
        words.join(" ")
    }

    /// Starts it with `program` in the place of the image's.
    pub(super) fn start(&self, program: &Path) -> Sidecar {
        let port = self.port("livenessProbe");
        within(60, "the port of the probes is free", || {
            TcpListener::bind(("0.0.0.0", port)).is_ok()
        });
        let mut command = bare("unshare".as_ref());
        command.args(["-rm", "sh", "-ec", &self.script(), "sh"]).args(self.command_line());
        command.env("PROGRAM", program);
        Sidecar::spawn(command, 0)
    }

    /// Whether both probes find it well.
    pub(super) fn is_well(&self) -> bool {
        ["livenessProbe", "readinessProbe"].iter().all(|probe| self.probe(probe) == Some(200))
    }

    fn port(&self, probe: &str) -> u16 {
        let port = self.container()[probe]["httpGet"]["port"].as_u64().expect("a port");
        port.try_into().expect("a port")
    }

    /// The code of a probe's answer, whoever signed its certificate.
    fn probe(&self, probe: &str) -> Option<u16> {
        let get = &self.container()[probe]["httpGet"];
        assert_eq!(get["scheme"], "HTTPS");
        let path = get["path"].as_str().expect("a path");
        // Nobody may listen yet.
        Some(https::get(self.port(probe), path, DEFAULT_VERSIONS).ok()?.0)
    }
}

fn bind(from: &Path, to: &str) -> String {
    let from = from.display();
    format!("mkdir -p {to}; mount --bind {from} {to}")
}
