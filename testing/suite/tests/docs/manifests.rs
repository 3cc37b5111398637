//! manifests/: flags that the programs know, in containers and in units of systemd; components that grant what the
//! bases do, and no more; one version.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use suite::{
    audit::granted,
    needs::{Need, needs},
    repository,
    repository::objects,
    sidecar::{bare, program},
};
use tempfile::TempDir;

fn root() -> PathBuf {
    repository::root().join("manifests")
}

/// All files below a directory that end so.
fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).expect("a directory").map(|e| e.expect("an entry").path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let mut found: Vec<_> =
        files.into_iter().filter(|path| path.to_string_lossy().ends_with(end)).collect();
    directories.iter().for_each(|directory| found.extend(self::files(directory, end)));
    found.sort();
    found
}

/// The documents of a file.
fn documents(path: &Path) -> Vec<Value> {
    objects(&path.to_string_lossy(), &[])
}

/// Calls `visit` with each map, however deep.
fn each_map(value: &Value, visit: &mut impl FnMut(&Value)) {
    if value.is_object() {
        visit(value);
    }
    let members = value.as_object().into_iter().flat_map(|map| map.values());
    let items = value.as_array().into_iter().flatten();
    members.chain(items).for_each(|part| each_map(part, visit));
}

/// Fails the test unless the program takes these flags; `-version` ends it after it has read them.
#[track_caller]
fn takes(name: &str, flags: &[&str], place: &Path) {
    let output = bare(&program(name)).args(flags).arg("-version").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", place.display());
}

#[test]
fn flags_of_containers_are_accepted() {
    let mut seen = BTreeSet::new();
    for path in files(&root(), ".yaml") {
        for document in documents(&path) {
            each_map(&document, &mut |container| {
                let is_ours = |image: &str| image.starts_with("spoke-sidecars:");
                if !container["image"].as_str().is_some_and(is_ours) {
                    return;
                }
                let command = container["command"][0].as_str().expect("a command");
                let name = command.strip_prefix("/usr/local/bin/").expect("its place");
                let args = container["args"].as_array().into_iter().flatten();
                let args: Vec<_> = args.map(|arg| arg.as_str().expect("a text")).collect();
                takes(name, &args, &path);
                assert_eq!(
                    container["terminationMessagePolicy"],
                    "FallbackToLogsOnError",
                    "{}",
                    path.display()
                );
                seen.insert(name.to_owned());
            });
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn flags_of_units_are_accepted() {
    let units = files(&root().join("systemd"), ".service");
    assert_eq!(units.len(), 3);
    for path in &units {
        let text = fs::read_to_string(path).expect("a unit");
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/"));
        let words: Vec<_> = start.expect("ExecStart").split(' ').collect();
        assert_eq!(
            format!("{}.service", words[0]),
            path.file_name().expect("a name").to_string_lossy()
        );
        takes(words[0], &words[1..], path);
    }
}

#[test]
fn units_are_understood_by_systemd() {
    if !needs(Need::Command(&["systemd-analyze", "--version"]), "there is no systemd-analyze") {
        return;
    }
    // It looks for the programs.
    let directory = TempDir::new().expect("a directory");
    let programs = program("csr-bootstrapper");
    let programs = programs.parent().expect("their directory").display().to_string();
    let mut command = Command::new("systemd-analyze");
    command.arg("verify");
    for path in files(&root().join("systemd"), ".service") {
        let text = fs::read_to_string(&path).expect("a unit").replace("/usr/local/bin", &programs);
        let copy = directory.path().join(path.file_name().expect("a name"));
        fs::write(&copy, text).expect("a copy");
        command.arg(copy);
    }
    let output = command.output().expect("systemd-analyze");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let of_ours = said.lines().filter(|line| line.contains(&*directory.path().to_string_lossy()));
    assert_eq!(of_ours.count(), 0, "{said}");
    assert!(output.status.success(), "{said}");
}

/// The rights in these files.
fn rights(files: &[&str]) -> BTreeSet<String> {
    let manifests: Vec<_> = files.iter().flat_map(|file| objects(file, &[])).collect();
    granted(&manifests).iter().map(|right| format!("{right:?}")).collect()
}

#[test]
fn csr_bootstrappers_component_grants_no_more_than_its_base() {
    for (file, more) in [
        ("role.yaml", &["csr-bootstrapper/leader-election/role.yaml"][..]),
        ("clusterrole.yaml", &[]),
    ] {
        let component = rights(&[&format!("components/csr-bootstrapper/{file}")]);
        let base = format!("csr-bootstrapper/{file}");
        let base = rights(&[&[&*base], more].concat());
        let more: Vec<_> = component.difference(&base).collect();
        assert!(more.is_empty(), "{more:?}");
        // The rest is for add-ons and properties.
        let less = base
            .difference(&component)
            .all(|right| ["leases", "clusterproperties"].iter().any(|word| right.contains(word)));
        assert!(less, "{component:?}");
    }
}

#[test]
fn add_on_grants_what_the_base_does() {
    let files = ["remote-sync/addon/clusterrole.yaml", "remote-sync/addon/identity.yaml"];
    let mut addon = rights(&files);
    let mut base = rights(&["remote-sync/hub/role.yaml", "remote-sync/hub/clusterrole.yaml"]);
    // In a RoleBinding the namespace needs no name.
    let is_namespace =
        |right: &String| right.contains("\"namespaces\"") && !right.contains("kube-system");
    addon.retain(|right| !is_namespace(right));
    base.retain(|right| !is_namespace(right));
    // The base ships the Secret.
    addon.retain(|right| !(right.contains("\"secrets\"") && right.contains("create")));
    assert_eq!(addon, base);
}

#[test]
fn version_in_labels_is_that_of_the_programs() {
    for path in files(&root(), "kustomization.yaml") {
        for document in documents(&path) {
            each_map(&document, &mut |labels| {
                let is_ours = labels["app.kubernetes.io/part-of"] == "spoke-sidecars";
                let version = labels.get("app.kubernetes.io/version").filter(|_| is_ours);
                let current = env!("CARGO_PKG_VERSION");
                assert!(version.is_none_or(|it| it == current), "{}", path.display());
            });
        }
    }
}

/// The right to create Secrets is that to the token of each ServiceAccount in the namespace.
#[test]
fn csr_bootstrapper_may_not_create_secrets_or_patch_namespaces() {
    for base in ["csr-bootstrapper", "components/csr-bootstrapper"] {
        let files = ["role.yaml", "clusterrole.yaml"].map(|file| format!("{base}/{file}"));
        let all = rights(&files.each_ref().map(String::as_str));
        let is_wide = |right: &&String| {
            right.contains("\"create\"") && right.contains("\"secrets\"")
                || right.contains("\"namespaces\"")
        };
        assert_eq!(all.iter().find(is_wide), None, "{base}");
    }
}

/// Deleting the Klusterlet would detach its cluster.
#[test]
fn replica_set_of_the_image_orphans_the_klusterlet_and_owns_one_field() {
    let all = documents(&root().join("hub/manifestworkreplicaset.yaml"));
    let set = all.iter().find(|it| it["kind"] == "ManifestWorkReplicaSet").expect("the set");
    let template = &set["spec"]["manifestWorkTemplate"];
    assert_eq!(template["deleteOption"]["propagationPolicy"], "Orphan");
    let [config] = &array(&template["manifestConfigs"])[..] else { panic!("{template}") };
    assert_eq!(config["updateStrategy"]["type"], "ServerSideApply");
    let klusterlet = &template["workload"]["manifests"][1];
    let fields: Vec<_> = klusterlet["spec"].as_object().expect("fields").keys().collect();
    assert_eq!(fields, ["imagePullSpec"]);
}

/// The klusterlet operator's pods declare no ports: the monitors put the programs' own behind their addresses, and the
/// policy lets these in.
#[test]
fn monitors_of_the_operator_use_the_programs_ports() {
    let default = |program: &str| {
        let page = repository::page(format!("bins/{program}/REFERENCE.md"));
        let (_, port) = page.split_once("`-metrics-port`, ").expect("the flag");
        port.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    let ports = ["csr-bootstrapper", "klusterlet-agent"].map(default);
    let monitored: Vec<_> = operators_monitors().into_iter().map(|(_, address)| address).collect();
    assert_eq!(monitored, ports.each_ref().map(|port| format!("$1:{port}")));
    let policy = &documents(&root().join("monitoring/operator/networkpolicy.yaml"))[0]["spec"];
    let let_in: Vec<_> =
        array(&policy["ingress"][0]["ports"]).iter().map(|port| port["port"].to_string()).collect();
    assert_eq!(let_in, ports);
    let apps = &policy["podSelector"]["matchExpressions"][0]["values"];
    let monitored = operators_monitors().into_iter().flat_map(|(apps, _)| apps);
    assert_eq!(texts(apps).collect::<BTreeSet<_>>(), monitored.collect());
}

/// Without Prometheus Operator the page's configuration stands in for the monitors.
#[test]
fn scrape_config_says_what_the_monitors_say() {
    let page = repository::page("docs/operations.md");
    let block = repository::block(&page, "scrape config").expect("the block");
    let yaml = block.trim().trim_start_matches("```yaml\n").trim_end_matches("```");
    let config: Value = serde_yaml::from_str(yaml).expect("YAML");
    let [ours, operators] = &array(&config["scrape_configs"])[..] else { panic!("{config}") };

    let monitor = &documents(&root().join("monitoring/podmonitor.yaml"))[0]["spec"];
    let endpoints = array(&monitor["podMetricsEndpoints"]).iter();
    let names: Vec<_> = endpoints.map(|it| it["port"].as_str().expect("a name")).collect();
    assert_eq!(ours["relabel_configs"][0]["regex"], names.join("|"));

    let relabelings = array(&operators["relabel_configs"]);
    let all: Vec<_> = operators_monitors().into_iter().flat_map(|(apps, _)| apps).collect();
    assert_eq!(relabelings[0]["regex"], all.join("|"));
    for ((apps, address), relabeling) in operators_monitors().iter().zip(&relabelings[1..]) {
        assert_eq!(relabeling["regex"], format!("(?:{});(.+)", apps.join("|")));
        assert_eq!(relabeling["replacement"], *address);
    }
}

/// The monitors of the klusterlet operator's pods: the labels `app`, and the address.
fn operators_monitors() -> Vec<(Vec<String>, String)> {
    let monitors = documents(&root().join("monitoring/operator/podmonitor.yaml"));
    let monitor = |monitor: &Value| {
        let (spec, selector) = (&monitor["spec"], &monitor["spec"]["selector"]);
        let one = selector["matchLabels"]["app"].as_str().map(str::to_owned);
        let apps = one.into_iter().chain(texts(&selector["matchExpressions"][0]["values"]));
        let relabeling = &spec["podMetricsEndpoints"][0]["relabelings"][0];
        (apps.collect(), relabeling["replacement"].as_str().expect("an address").to_owned())
    };
    monitors.iter().map(monitor).collect()
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    let texts = list.as_array().into_iter().flatten();
    texts.map(|text| text.as_str().expect("a text").to_owned())
}
