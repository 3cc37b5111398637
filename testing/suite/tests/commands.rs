//! Every command on the pages has been run: by a test, by .ci/run, or else it stands here with the reason.

use std::{collections::BTreeSet, fs, path::Path};

use suite::{
    figures::{page, root},
    outputs,
    sidecar::{bare, program},
};

/// A command in a block, and the mark before the block.
#[derive(Debug)]
struct Command {
    page: String,
    mark: String,
    line: String,
}

/// Beginnings of commands on a page that nothing runs as they are, and why, or what plays them.
const OTHERS: &[(&str, &str, &str)] = &[
    // Machines and images of one's own.
    ("bins/csr-bootstrapper/README.md", "clusteradm init", "clusteradm is no part of this"),
    ("bins/csr-bootstrapper/README.md", "clusteradm accept", "clusteradm is no part of this"),
    ("bins/csr-bootstrapper/README.md", "kind ", "needs kind"),
    ("bins/csr-bootstrapper/README.md", "docker save", "needs docker and k3s"),
    // No kubelet.
    ("docs/troubleshooting.md", "kubectl run", "needs a kubelet"),
    (
        "docs/troubleshooting.md",
        "kubectl -n open-cluster-management-agent logs",
        "needs a kubelet; tests/quickstart plays another",
    ),
    (
        "docs/troubleshooting.md",
        "kubectl -n open-cluster-management-agent port-forward",
        "needs a kubelet; tests/quickstart plays the same",
    ),
    ("docs/troubleshooting.md", "curl localhost:8385/readyz", "tests/quickstart plays the same"),
    // Those of a quick start or of a scenario with other names.
    (
        "docs/troubleshooting.md",
        "kubectl -n open-cluster-management-agent create secret",
        "tests/quickstart runs the same",
    ),
    (
        "bins/remote-sync/REFERENCE.md",
        "kubectl -n NAMESPACE patch configmap",
        "remote_sync/gate.rs writes the same",
    ),
    (
        "bins/remote-sync/REFERENCE.md",
        "kubectl annotate secret",
        "remote_sync/identity.rs writes the same",
    ),
    ("bins/remote-sync/REFERENCE.md", "echo UID", "remote_sync/identity.rs writes the same"),
    ("bins/remote-sync/REFERENCE.md", "remote-sync <the", "remote_sync/explain.rs"),
    // For those who work on this.
    ("testing/apiserver/README.md", "dev-apiserver", "dev-apiserver's tests start it as a library"),
    ("testing/apiserver/README.md", "export", "for a person"),
    ("testing/apiserver/README.md", "kubectl", "for a person"),
    ("testing/apiserver/README.md", "curl", "apiserver/tests/api/faults.rs sends the same"),
    ("testing/controlplane/README.md", "testing/controlplane/run.sh bash", "for a person"),
    ("testing/controlplane/README.md", "KUBEBUILDER_ASSETS", "from time to time"),
    ("testing/controlplane/README.md", "kubectl", "for a person"),
    ("testing/fuzz/README.md", "make fuzz TARGET", "for a finding"),
    ("testing/suite/README.md", "cargo build", "for one test"),
    ("testing/suite/README.md", "SUITE=real", "for one test"),
    ("testing/suite/README.md", "make chaos-real", "a part of it is in make e2e"),
];

/// What a line that is no comment and no output begins with.
const WORDS: [&str; 17] = [
    "addon-lease-controller ",
    "cargo ",
    "clusteradm ",
    "csr-bootstrapper ",
    "curl ",
    "dev-apiserver ",
    "docker ",
    "echo ",
    "export ",
    "hub-kubeconfig-dumper ",
    "kind ",
    "kubectl ",
    "make ",
    "remote-sync ",
    "KUBEBUILDER_ASSETS=",
    "SUITE=",
    "testing/controlplane/run.sh ",
];

fn pages(directory: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let is_other = name.starts_with('.') || ["target", "dist", "release"].contains(&&*name);
        if path.is_dir() && !is_other {
            pages(&path, all);
        } else if name.ends_with(".md") {
            let path = path.strip_prefix(root()).expect("of the repository");
            all.push(path.display().to_string());
        }
    }
}

/// The commands in fences of a shell, all lines of which are commands, and in indented blocks, whose lines say.
fn commands(name: &str, text: &str) -> Vec<Command> {
    let (mut all, mut fence, mut last, mut mark) = (Vec::new(), None, "", "");
    let joined = text.replace("\\\n", " ");
    for line in joined.lines() {
        let mut add = |line: &str| {
            let (page, mark) = (name.to_owned(), mark.to_owned());
            all.push(Command { page, mark, line: line.trim().to_owned() });
        };
        match (line.trim_start().strip_prefix("```"), fence) {
            (Some(sort), None) => (fence, mark) = (Some(sort), last),
            (Some(_), Some(_)) => (fence, mark) = (None, ""),
            (None, Some("sh")) if !line.is_empty() && !line.starts_with('#') => add(line),
            (None, Some("console")) if line.starts_with("$ ") => add(&line[2..]),
            (None, None) if line.starts_with("    ") => {
                let line = line.trim().trim_start_matches("$ ");
                if WORDS.iter().any(|word| line.starts_with(word)) {
                    add(line);
                }
            }
            _ => {}
        }
        last = line;
    }
    all
}

fn all_commands() -> Vec<Command> {
    let mut names = Vec::new();
    pages(&root(), &mut names);
    names.iter().flat_map(|name| commands(name, &page(name))).collect()
}

/// Whether a test or .ci/run runs the command, by its mark or by what it is.
fn is_run(command: &Command) -> bool {
    let mark = command.mark.trim_start_matches("<!-- ").trim_end_matches(" -->");
    if let Some(name) = mark.strip_prefix("quickstart:") {
        return page("testing/suite/tests/quickstart/main.rs").contains(&format!("\"{name}\""));
    }
    if let Some((step, _)) = mark.strip_prefix("run: ").and_then(|step| step.split_once(", ")) {
        return page("testing/suite/tests/migration.rs").contains(&format!("\"{step}\""));
    }
    if let Some(rest) = command.line.strip_prefix("make ") {
        let target = rest.split_whitespace().next().unwrap_or_default();
        // `make recordings` runs what both demos show.
        let target = if target.starts_with("demo") { "recordings" } else { target };
        let is_plain = !rest.starts_with("fuzz TARGET");
        return is_plain && runs_in_ci(target);
    }
    // Tried by another test below.
    command.line.starts_with("remote-sync -") && command.page.ends_with("REFERENCE.md")
}

/// Whether .ci/run makes this target, or one that needs it.
fn runs_in_ci(target: &str) -> bool {
    let (script, makefile) = (page(".ci/run"), page("Makefile"));
    let is_made = |target: &str| {
        let is_title = |line: &&str| line.starts_with('#') || line.starts_with("section ");
        let lines = script.lines().filter(|line| !is_title(line));
        let mut made = lines.filter_map(|line| line.split_once("make ")).map(|(_, rest)| rest);
        made.any(|rest| rest.split(' ').next() == Some(target))
    };
    let needs = |rule: &str| {
        let (made, needed) = rule.split_once(": ")?;
        let needed = needed.split(" ##").next()?;
        needed.split(' ').any(|it| it == target).then(|| is_made(made))
    };
    is_made(target) || makefile.lines().filter_map(needs).any(|made| made)
}

#[test]
fn every_command_is_run_or_says_why_not() {
    let all = all_commands();
    assert!(all.len() > 100, "{} commands", all.len());
    let mut used = BTreeSet::new();
    for command in all.iter().filter(|command| !is_run(command)) {
        let is_it = |(name, begins, _): &&(&str, &str, &str)| {
            command.page == *name && command.line.starts_with(begins)
        };
        let other = OTHERS.iter().find(is_it);
        let other = other.unwrap_or_else(|| panic!("nothing runs this: {command:?}"));
        used.insert(other);
    }
    let unused: Vec<_> = OTHERS.iter().filter(|other| !used.contains(other)).collect();
    assert!(unused.is_empty(), "these run, or are gone: {unused:?}");
}

/// With `-print-rbac`, which needs no server, each set of flags in the reference is accepted.
#[test]
fn the_flags_in_the_reference_of_remote_sync_are_accepted() {
    let all = all_commands();
    let examples = all.iter().filter(|it| it.page == "bins/remote-sync/REFERENCE.md");
    let mut count = 0;
    for line in examples.filter_map(|it| it.line.strip_prefix("remote-sync -")) {
        let mut command = bare(&program("remote-sync"));
        let words = line.split_whitespace().map(|word| word.trim_matches('\''));
        command.args(format!("-{}", words.collect::<Vec<_>>().join(" ")).split(' '));
        let output = outputs::run(command.arg("-print-rbac").env("POD_NAMESPACE", "ns"));
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        count += 1;
    }
    assert!(count >= 6, "{count} examples");
}
