//! manifests/monitoring: a Prometheus that scrapes all programs has an answer to each query of the dashboard, and
//! the series of each alert with the labels that its text names.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use suite::{
    needs,
    needs::Need,
    repository::{objects, page, root},
    sidecar::{Sidecar, bare, free_port},
    spoke::Spoke,
    sync::{self, BUDGETS, Setting},
    within, work,
};
use tempfile::TempDir;

use crate::stage::{ALL, Stage};

/// In the order of [`ALL`].
const PROGRAMS: [&str; 4] =
    ["addon-lease-controller", "csr-bootstrapper", "hub-kubeconfig-dumper", "remote-sync"];

/// Seconds until a rate over half a minute has two samples, and a little more.
const PATIENCE: u64 = 60;
/// What metrics of ours begin with.
const PREFIXES: [&str; 6] =
    ["sidecar_", "remote_sync_", "rest_client_", "process_", "leader_election_", "certwatcher_"];

/// The groups of the PrometheusRule.
fn rules() -> Value {
    objects("monitoring/prometheusrule.yaml", &[])[0]["spec"].clone()
}

/// Expression and legend of each of the dashboard's targets, for all namespaces.
fn queries() -> Vec<(String, String)> {
    let dashboard = page("manifests/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let text = |target: &Value, field: &str| target[field].as_str().expect("a text").to_owned();
    targets
        .map(|target| {
            let query = text(target, "expr").replace("$namespace", ".*");
            (query.replace("$__rate_interval", "30s"), text(target, "legendFormat"))
        })
        .collect()
}

/// The selectors of our metrics in an expression.
fn selectors(expression: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_name) {
        let name = &rest[start..];
        let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
        rest = &name[end..];
        if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            let matchers = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let matchers = matchers.map(|(inner, _)| format!("{{{inner}}}")).unwrap_or_default();
            found.insert(format!("{}{matchers}", &name[..end]));
        }
    }
    found
}

/// Returns each text between `open` and `close`.
fn between<'a>(text: &'a str, open: &str, close: &str) -> BTreeSet<&'a str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(|part| part.split_once(close)).map(|(inner, _)| inner.trim()).collect()
}

struct Prometheus {
    port: u16,
    _process: Sidecar,
    _directory: TempDir,
}

impl Prometheus {
    /// Scrapes these programs each second, with the labels of a PodMonitor.
    fn scraping(programs: &[(&str, &Sidecar)]) -> Self {
        let directory = TempDir::new().expect("a directory");
        let targets: Vec<_> = programs
            .iter()
            .map(|(name, process)| {
                json!({
                    "targets": [format!("127.0.0.1:{}", process.port)],
                    "labels": {"namespace": "n", "pod": format!("{name}-0"), "container": name},
                })
            })
            .collect();
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "n/spoke-sidecars", "static_configs": targets}],
        });
        let path = directory.path().join("prometheus.yaml");
        fs::write(&path, config.to_string()).expect("its configuration");
        fs::write(directory.path().join("rules.yaml"), rules().to_string()).expect("its rules");
        let port = free_port();
        let mut command = bare(Path::new("prometheus"));
        command
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let process = Sidecar::spawn(command, port);
        process.wait_for("Server is ready");
        Self { port, _process: process, _directory: directory }
    }

    /// The labels of each series that a query gives.
    fn query(&self, query: &str) -> Vec<Value> {
        let answer = self.get("query", query);
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let series = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        series.into_iter().map(|it| it["metric"].clone()).collect()
    }

    fn get(&self, path: &str, query: &str) -> Value {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("Prometheus");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let request = format!("GET /api/v1/{path}?query={encoded} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the request is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the answer");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// The series of a query, once there are some.
    #[track_caller]
    fn series(&self, query: &str) -> Vec<Value> {
        within(PATIENCE, query, || Some(self.query(query)).filter(|series| !series.is_empty()))
    }
}

/// Whether one of the series has the label.
fn have(series: &[Value], label: &str) -> bool {
    series.iter().any(|labels| labels[label].is_string())
}

#[test]
fn prometheus_has_the_series_of_alerts_and_panels() {
    if !needs::needs(Need::Tool(&["prometheus", "--version"]), "there is no prometheus") {
        return;
    }
    let stages = ALL.map(|(letter, set)| set(&format!("scraped-{}", letter.to_lowercase())));
    let programs = stages.each_ref().map(|stage| stage.start());
    stages.iter().zip(&programs).for_each(|(stage, program)| stage.settle(program));
    // What there is only while something is wrong: a request that waits for somebody, and an object that a server
    // rejects.
    let waits = Spoke::new("scraped-waits");
    let waiting = waits.start(&["-disable-leader-election=false"]);
    waits.hub.next_csr(&waits.cluster);
    let stage = sync::Stage::pull("scraped-rejected", Setting::safe(&[&BUDGETS]));
    stage.own.cluster.faults().deny("create", "poddisruptionbudgets", "");
    stage.source(&BUDGETS, "one").create_number(1);
    let rejected = Stage::start(&stage);
    let works = work::Stage::new();
    works.apply(&[
        json!({"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "x"}}),
    ]);
    let applying = works.start(&[]);
    let mut scraped: Vec<_> = PROGRAMS.into_iter().zip(&programs).collect();
    scraped.extend([("csr-bootstrapper", &waiting), ("remote-sync", &rejected)]);
    scraped.push(("klusterlet-agent", &applying));
    let prometheus = Prometheus::scraping(&scraped);
    let all_are_up = || prometheus.query("up == 1").len() == scraped.len();
    within(PATIENCE, "all are scraped", all_are_up);

    for (query, legend) in queries() {
        let series = prometheus.series(&query);
        for label in between(&legend, "{{", "}}") {
            assert!(have(&series, label), "{label} of {query}: {series:?}");
        }
    }
    let rules = rules();
    let alerts = rules["groups"][0]["rules"].as_array().expect("rules");
    assert_eq!(alerts.len(), 12);
    for alert in alerts {
        let expression = alert["expr"].as_str().expect("an expression");
        let found = selectors(expression);
        assert!(!found.is_empty(), "{expression}");
        let series: Vec<_> = found.iter().flat_map(|one| prometheus.series(one)).collect();
        let words = alert["annotations"].to_string();
        for label in between(&words, "$labels.", " ") {
            assert!(have(&series, label), "{label} of {expression}");
        }
    }
    // None of them fires, as all is well; a request waits for seconds.
    let firing = prometheus.query("ALERTS{alertstate=\"firing\"}");
    assert!(firing.is_empty(), "{firing:?}");
}

#[test]
fn alert_fires_when_it_has_to_and_not_before() {
    if !needs::needs(Need::Tool(&["promtool", "--version"]), "there is no promtool") {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    let tests = directory.path().join("alerts.yaml");
    fs::copy(root().join("testing/alerts.yaml"), &tests).expect("the tests");
    fs::write(directory.path().join("rules.yaml"), rules().to_string()).expect("the rules");
    let output = Command::new("promtool").args(["test", "rules"]).arg(&tests).output();
    let output = output.expect("promtool");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{}", said.concat());
}
