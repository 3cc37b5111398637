//! OCM's own controllers on the real control plane: registration and the addon-manager. They start once for all tests
//! and stay for the next test program; the control plane ends them.

use std::{
    fs::{self, File},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use apiclient::resource::Resource;
use serde_json::{Value, json};

use super::{AUTO, Bootstrap, GROUP, clusters, ensure as create, give_bootstrap_rights, global};
use crate::{
    cluster::{Cluster, resource},
    pause,
    sidecar::free_port,
};

/// The program and subcommand of each.
const CONTROLLERS: [[&str; 2]; 2] = [["registration", "controller"], ["addon", "manager"]];
/// Their user, by which the admission policy distinguishes them from the administrator.
const USER: &str = "ocm-hub-controller";
const POLICY: &str = "accept-only-auto";
/// The registration controller lists some twenty kinds before it works.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ensures that they run, and that the registration controller works.
pub(super) fn ensure(hub: &Cluster) {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let directory = PathBuf::from(std::env::var_os("E2E_DIR").expect("E2E_DIR"));
        let _turn = take_turns(&directory);
        if !is_running(&directory, CONTROLLERS[0]) {
            set_up(hub);
        }
        for words in CONTROLLERS {
            if !is_running(&directory, words) {
                start(hub, &directory, words);
            }
        }
        wait_until_it_accepts(hub);
    });
}

/// Serializes test programs that do the same. The system releases the name whatever happens to its holder.
fn take_turns(directory: &Path) -> UnixListener {
    let name = SocketAddr::from_abstract_name(directory.as_os_str().as_encoded_bytes());
    let name = name.expect("a short path");
    let start = Instant::now();
    loop {
        match UnixListener::bind_addr(&name) {
            Ok(turn) => return turn,
            Err(error) => assert!(start.elapsed() < PATIENCE, "waiting for my turn: {error}"),
        }
        pause(50);
    }
}

fn set_up(hub: &Cluster) {
    let assets = PathBuf::from(std::env::var_os("E2E_ASSETS").expect("E2E_ASSETS"));
    let crds = assets.join("crds");
    done(kubectl(hub, &["apply", "--server-side", "-f", &crds.to_string_lossy()]));
    // kubectl fails while a definition has no conditions.
    wait("the definitions are established", || {
        kubectl(hub, &["wait", "--for=condition=Established", "crd", "--all"]).status.success()
    });
    give_bootstrap_rights(hub);
    confine(hub);
}

fn start(hub: &Cluster, directory: &Path, [program, word]: [&str; 2]) {
    let log = File::create(directory.join(format!("ocm-{program}.log"))).expect("its log");
    let errors = log.try_clone().expect("its log again");
    let assets = PathBuf::from(std::env::var_os("E2E_ASSETS").expect("E2E_ASSETS"));
    let mut command = Command::new(assets.join(program));
    command
        .arg(word)
        .arg("--kubeconfig")
        .arg(kubeconfig(hub, directory))
        .args(["--namespace", "open-cluster-management-hub", "--disable-leader-election"])
        .args(["--listen", &format!("127.0.0.1:{}", free_port())]);
    if program == "registration" {
        command
            .arg("--feature-gates=ManagedClusterAutoApproval=true")
            .args(["--auto-approved-csr-users", &Bootstrap::Auto.user()]);
    }
    let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{program} {word}: {error}"));
    fs::write(id(directory, program), child.id().to_string()).expect("its id is written");
    // If it ends, it must not stay as a zombie.
    thread::spawn(move || child.wait());
}

fn is_running(directory: &Path, [program, word]: [&str; 2]) -> bool {
    let id = fs::read_to_string(id(directory, program)).unwrap_or_default();
    let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    !id.is_empty() && String::from_utf8_lossy(&command).contains(&format!("{program}\0{word}\0"))
}

/// Returns the path of the file with a controller's process id.
fn id(directory: &Path, program: &str) -> PathBuf {
    directory.join(format!("ocm-{program}.pid"))
}

/// Writes the administrator's kubeconfig, impersonating the controllers' user.
fn kubeconfig(hub: &Cluster, directory: &Path) -> PathBuf {
    let text = fs::read_to_string(&hub.kubeconfig).expect("the administrator's kubeconfig");
    let mut config: Value = serde_yaml::from_str(&text).expect("YAML");
    let user = &mut config["users"][0]["user"];
    user["as"] = json!(USER);
    user["as-groups"] = json!(["system:masters"]);
    let path = directory.join("ocm-controller.kubeconfig");
    fs::write(&path, config.to_string()).expect("the kubeconfig is written");
    path
}

/// Prevents them from accepting all clusters: a person decides about the others.
fn confine(hub: &Cluster) {
    // Both versions are equivalent here.
    let version = if hub.minor() < 30 { "v1beta1" } else { "v1" };
    let admission = |plural, kind| Resource {
        version: version.into(),
        ..resource("admissionregistration.k8s.io", plural, kind)
    };
    let rule = json!({
        "apiGroups": [GROUP], "apiVersions": ["*"],
        "operations": ["UPDATE"], "resources": ["managedclusters"],
    });
    let accepts = |object: &str| {
        format!("(has({object}.spec.hubAcceptsClient) && {object}.spec.hubAcceptsClient)")
    };
    let may = format!(
        "object.metadata.name.startsWith('{AUTO}') || {} || !{}",
        accepts("oldObject"),
        accepts("object")
    );
    let policy = json!({
        "metadata": {"name": POLICY},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "who", "expression": format!("request.userInfo.username == '{USER}'")}],
            "validations": [{"expression": may, "message": "a person has to accept it"}],
        },
    });
    create(
        hub,
        &admission("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        None,
        policy,
    );
    let binding = json!({
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    });
    let bindings =
        admission("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding");
    create(hub, &bindings, None, binding);
    wait_until_confined(hub);
}

/// A policy takes effect some time after its creation.
fn wait_until_confined(hub: &Cluster) {
    let name = probe(hub, "confined", false);
    let user = format!("--as={USER}");
    let patch = r#"{"spec": {"hubAcceptsClient": true}}"#;
    let arguments = [
        "patch",
        "managedcluster",
        &name,
        "--type=merge",
        "-p",
        patch,
        "--dry-run=server",
        &user,
        "--as-group=system:masters",
    ];
    wait("the admission policy works", || !kubectl(hub, &arguments).status.success());
    hub.delete(&global(&clusters(), &name));
}

fn wait_until_it_accepts(hub: &Cluster) {
    let name = probe(hub, "accepted", true);
    let clusters = clusters();
    let target = global(&clusters, &name);
    wait("the registration controller accepts a cluster", || {
        let cluster = hub.get(&target).expect("the probe");
        let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == "HubAcceptedManagedCluster")
    });
    hub.delete(&target);
}

fn probe(hub: &Cluster, what: &str, accepted: bool) -> String {
    let name = format!("probe-{what}-{}", std::process::id());
    let spec = json!({"hubAcceptsClient": accepted});
    create(hub, &clusters(), None, json!({"metadata": {"name": name}, "spec": spec}));
    name
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "in vain for {PATIENCE:?}: {what}");
        pause(50);
    }
}

fn kubectl(hub: &Cluster, arguments: &[&str]) -> Output {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(&hub.kubeconfig).args(arguments);
    command.output().expect("kubectl is on the PATH")
}

fn done(output: Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
