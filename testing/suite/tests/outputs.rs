//! No key and no token in use is in anything that the programs gave out during a whole run on the real control plane, at
//! `-v 5`: log, standard output, command line, the endpoint's pages, requests but for the content of Secrets, and so
//! Events, conditions and requests for certificates. Secrets are those of both servers from the first to the last, by
//! their audit logs, and the keys of the servers.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use suite::{
    audit::{self, text},
    outputs::PROGRAMS,
    secrets::{Needles, secret_parts, shapes},
};

/// What was sought in what.
#[derive(Default)]
struct Search {
    needles: Needles,
    /// Of each program.
    processes: BTreeMap<&'static str, usize>,
    requests: usize,
    bytes: usize,
    /// What was seen, and where.
    found: BTreeMap<String, Vec<String>>,
}

impl Search {
    fn add(&mut self, place: &str, key: &str, value: &str) {
        for secret in secret_parts(key, value) {
            self.needles.add(&format!("{place}, {key}"), &secret);
        }
    }

    /// The Secrets and the tokens that a cluster ever stored or issued.
    fn add_cluster(&mut self, cluster: &str) {
        let audit = audit::all_requests(cluster, is_of_secrets);
        for event in &audit {
            let object = &event["responseObject"];
            let name = ["namespace", "name"].map(|it| text(event, &format!("/objectRef/{it}")));
            let place = format!("{cluster}: {}/{}", name[0], name[1]);
            self.add(&place, "token", text(object, "/status/token"));
            let data = shared::secret::data(object).unwrap_or_default();
            for (key, value) in data {
                self.add(&place, &key, &String::from_utf8_lossy(&value));
            }
        }
    }

    /// The keys and kubeconfigs that the servers began with.
    fn add_files(&mut self, directory: &Path) {
        for path in entries(directory) {
            let is_secret = path.extension().is_some_and(|it| it == "key" || it == "kubeconfig");
            if is_secret {
                let value = fs::read_to_string(&path).expect("a file of the control plane");
                self.add(&path.display().to_string(), "", &value);
            }
        }
    }

    fn look_at(&mut self, place: &str, text: &str, by_shape: bool) {
        self.bytes += text.len();
        if let Some((secret, line)) = self.needles.find(text.as_bytes()) {
            let what = format!("a piece of {secret}");
            self.found.entry(what).or_default().push(format!("{place}:{line}"));
        }
        let mut lines = text.lines().enumerate().filter(|_| by_shape);
        let shape = lines.find_map(|(number, line)| Some((number + 1, shapes::look(line)?)));
        if let Some((line, what)) = shape {
            self.found.entry(what.to_owned()).or_default().push(format!("{place}:{line}"));
        }
    }

    /// What the processes printed.
    fn look_at_outputs(&mut self, directory: &Path) {
        for path in entries(directory) {
            let text = String::from_utf8_lossy(&fs::read(&path).expect("an output")).into_owned();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_argv = name.ends_with(".argv");
            if let Some(program) = PROGRAMS.iter().find(|it| is_argv && name.starts_with(**it)) {
                *self.processes.entry(program).or_default() += 1;
            }
            // Scenarios give passwords in flags, to see that they are not printed.
            self.look_at(&name, &text, !is_argv);
        }
    }

    /// What they sent to a cluster, but for what is in Secrets.
    fn look_at_requests(&mut self, cluster: &str) {
        let is_ours =
            |event: &Value| PROGRAMS.iter().any(|it| text(event, "/userAgent").starts_with(it));
        for mut event in audit::all_requests(cluster, is_ours) {
            if is_of_secrets(&event) {
                event["requestObject"].take();
                event["responseObject"].take();
            }
            self.requests += 1;
            let place = format!("{cluster}: {} {}", audit::words(&event), event["auditID"]);
            self.look_at(&place, &event.to_string(), true);
        }
    }
}

fn is_of_secrets(event: &Value) -> bool {
    audit::words(event).ends_with(" secrets")
        || audit::words(event) == "create serviceaccounts/token"
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory");
    entries.map(|entry| entry.expect("an entry").path())
}

/// `PROCESSES` says of how many the run must have left outputs, as in `remote-sync=100 csr-bootstrapper=200`.
fn expected() -> Vec<(String, usize)> {
    let all = env::var("PROCESSES").expect("PROCESSES");
    let parse = |word: &str| {
        let (name, count) = word.split_once('=').expect("NAME=COUNT");
        (name.to_owned(), count.parse().expect("a number"))
    };
    all.split_whitespace().map(parse).collect()
}

/// Files that start programs which are none of ours, and how many times; ours start by `Sidecar::spawn` and
/// `outputs::run`, which keep what is printed.
const OTHERS: [(&str, usize); 17] = [
    ("src/measure.rs", 3),
    ("src/needs.rs", 1),
    ("src/ocm/real.rs", 2),
    ("src/outputs.rs", 1),
    // `kill`, too.
    ("src/sidecar.rs", 2),
    ("src/term.rs", 1),
    ("tests/addon_lease_controller/in_cluster.rs", 1),
    ("tests/csr_bootstrapper/certificate/object.rs", 1),
    ("tests/csr_bootstrapper/flow.rs", 1),
    ("tests/csr_bootstrapper/klusterlet/container.rs", 1),
    ("tests/csr_bootstrapper/operator.rs", 1),
    ("tests/csr_bootstrapper/work.rs", 1),
    ("tests/hub_kubeconfig_dumper/crash.rs", 2),
    ("tests/kubernetes/kubectl.rs", 1),
    ("tests/migration.rs", 1),
    ("tests/quickstart/main.rs", 1),
    ("tests/quickstart/pods.rs", 1),
];

#[test]
fn no_program_starts_past_the_search() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = BTreeMap::new();
    // What `make e2e` runs.
    let tests = PROGRAMS.map(|name| name.replace('-', "_"));
    let tests =
        tests.iter().map(String::as_str).chain(["kubernetes", "quickstart", "migration.rs"]);
    let mut places: Vec<_> = tests.map(|name| suite.join("tests").join(name)).collect();
    places.push(suite.join("src"));
    while let Some(place) = places.pop() {
        if place.is_dir() {
            places.extend(entries(&place).filter(|it| !it.ends_with("bin")));
            continue;
        }
        let text = fs::read_to_string(&place).expect("a source");
        let name = place.strip_prefix(suite).expect("of the suite").display().to_string();
        let count = starts(&text);
        if count > 0 {
            seen.insert(name, count);
        }
    }
    let known = OTHERS.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(seen, BTreeMap::from(known), "a program of ours goes through suite::outputs");
}

/// How many times a source starts a process. The `status()` of an object's path is something else.
fn starts(text: &str) -> usize {
    let is_start = |line: &&str| {
        let of_command = ["Command::", "command.", ".arg("].iter().any(|it| line.contains(it));
        line.contains(".spawn()")
            || line.contains(".output()")
            || line.contains(".status()") && of_command
    };
    text.lines().filter(is_start).count()
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn no_key_or_token_in_use_is_in_any_output() {
    let [directory, outputs] =
        ["E2E_DIR", "OUTPUTS"].map(|name| PathBuf::from(env::var_os(name).expect(name)));
    let mut search = Search::default();
    for cluster in ["hub", "managed"] {
        search.add_files(&directory.join(cluster));
        search.add_cluster(cluster);
    }
    search.look_at_outputs(&outputs);
    for cluster in ["hub", "managed"] {
        search.look_at_requests(cluster);
    }
    println!(
        "{} secrets sought in {} bytes: outputs of {:?} processes, {} requests",
        search.needles.count(),
        search.bytes,
        search.processes,
        search.requests
    );
    for (what, places) in &search.found {
        println!("{what} is in {} places, the first is {}", places.len(), places[0]);
    }
    assert!(search.found.is_empty(), "secrets were printed");
    for (program, least) in expected() {
        let seen = search.processes.get(&*program).copied().unwrap_or_default();
        assert!(seen >= least, "{program}: outputs of {seen} processes, not of {least}");
    }
    assert!(search.needles.count() >= 20 && search.requests >= 20, "this is no run");
}
