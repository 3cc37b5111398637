//! What pages tell operators is what the programs do: exit codes, Events, metrics and examples of flags. The
//! tables of flags are held to `-help` by the programs' own tests.

use std::{collections::BTreeSet, fs, path::Path};

use sidecar::runtime::EXIT_CODES;
use suite::{
    dumper,
    repository::{block, page, root},
    scene::Scene,
    sidecar::{Sidecar, bare, families, program},
    spoke::Spoke,
    sync::Stage,
    work,
};

use crate::rows;

/// The text of all sources under a directory, without their unit tests.
fn sources(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            text += &sources(&path);
        } else if !path.ends_with("tests.rs") {
            let source = fs::read_to_string(&path).expect("a source");
            text += source.split("#[cfg(test)]").next().unwrap_or_default();
        }
    }
    text
}

#[test]
fn exit_codes_are_those_of_the_programs() {
    let mut table = "\n| Code | |\n|---|---|\n".to_owned();
    EXIT_CODES.iter().for_each(|(code, what)| table += &format!("| {code} | {what} |\n"));
    table += "\n";
    let page = page("docs/operations.md");
    assert_eq!(block(&page, "exit codes"), Some(&*table), "docs/operations.md");
}

/// Every reason on the page is in the sources of its program.
#[test]
fn events_are_those_of_the_programs() {
    let page = page("docs/operations.md");
    let (_, events) = page.split_once("\n## Events\n").expect("the section");
    let (events, _) = events.split_once("\n## ").expect("another section");
    let rows = rows(events);
    assert!(rows.len() > 20, "{rows:?}");
    for program in ["csr-bootstrapper", "klusterlet-agent", "remote-sync"] {
        let source = sources(&root().join("bins").join(program).join("src"));
        for row in rows.iter().filter(|row| row[1] == program) {
            let reason = row[0].trim_matches('`');
            assert!(source.contains(&format!("\"{reason}\"")), "{program} has no Event {reason}");
        }
    }
}

/// With `-print-rbac`, which needs no server.
#[test]
fn examples_of_flags_are_accepted_by_remote_sync() {
    let page = page("bins/remote-sync/REFERENCE.md").replace("\\\n", " ");
    let examples: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("    remote-sync -res")).collect();
    assert!(examples.len() > 2, "{examples:?}");
    for example in examples {
        let mut command = bare(&program("remote-sync"));
        command.args(format!("-res{example}").split_whitespace().map(|it| it.trim_matches('\'')));
        let output =
            command.arg("-print-rbac").env("POD_NAMESPACE", "ns").output().expect("it runs");
        assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

// --- metrics ---

/// What a running program shows is in the table of its reference or in that of all programs, and what the tables name
/// is in the sources.
#[track_caller]
fn has_the_metrics_of_its_reference(program: &str, sidecar: &Sidecar) {
    let common = page("docs/operations.md");
    let tables = page(format!("bins/{program}/REFERENCE.md"))
        + block(&common, "common metrics").expect("the block");
    let rows = rows(&tables);
    let is_metric = |cell: &&str| cell.starts_with('`') && cell.contains('_');
    let names = rows.iter().map(|row| row[0]).filter(is_metric).flat_map(|cell| cell.split(", "));
    let told: BTreeSet<_> = names.map(|name| name.trim_matches('`')).collect();
    let metrics = sidecar.ask("/metrics").1;
    let shown = families(&metrics);
    assert!(shown.len() > 10, "{metrics}");
    for name in shown {
        assert!(told.contains(name), "REFERENCE.md of {program} lacks {name}");
    }
    let all =
        sources(&root().join("bins").join(program).join("src")) + &sources(&root().join("shared"));
    for name in told {
        assert!(all.contains(&format!("\"{name}\"")), "{program} has no metric {name}");
    }
}

#[test]
fn metrics_of_addon_lease_controller_are_in_its_reference() {
    let scene = Scene::new("metrics-lease");
    let sidecar = scene.start(&["-leader-election"]);
    sidecar.wait_for_code("/readyz", 200);
    has_the_metrics_of_its_reference("addon-lease-controller", &sidecar);
}

#[test]
fn metrics_of_csr_bootstrapper_are_in_its_reference() {
    let spoke = Spoke::auto("metrics-agent");
    let sidecar = spoke.start(&[]);
    sidecar.wait_for_code("/readyz", 200);
    has_the_metrics_of_its_reference("csr-bootstrapper", &sidecar);
}

#[test]
fn metrics_of_hub_kubeconfig_dumper_are_in_its_reference() {
    let (stage, _) = dumper::Stage::with_secret("metrics-dumper");
    let sidecar = stage.start_ready(&[]);
    has_the_metrics_of_its_reference("hub-kubeconfig-dumper", &sidecar);
}

#[test]
fn metrics_of_klusterlet_agent_are_in_its_reference() {
    let stage = work::Stage::new();
    let sidecar = stage.start(&["-disable-leader-election=false"]);
    stage.apply(&[work::config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    has_the_metrics_of_its_reference("klusterlet-agent", &sidecar);
}

#[test]
fn metrics_of_remote_sync_are_in_its_reference() {
    let (stage, source, target) = Stage::with_widget("metrics-sync");
    let sidecar = stage.start_served(&[]);
    target.wait_for_number(1);
    source.wait("the finalizer", |object| object["metadata"]["finalizers"].is_array());
    has_the_metrics_of_its_reference("remote-sync", &sidecar);
}
