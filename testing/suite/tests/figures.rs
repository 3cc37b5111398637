//! Every figure stands in docs/figures.md, and the versions of the control plane are those of its module.

use suite::figures::{page, rows};

/// Of the tables with measured figures, this page has the only ones.
#[test]
fn no_other_page_has_figures() {
    let programs =
        ["addon-lease-controller", "csr-bootstrapper", "hub-kubeconfig-dumper", "remote-sync"];
    let of_programs = programs.iter().flat_map(|program| {
        ["README", "REFERENCE"].map(|page| format!("bins/{program}/{page}.md"))
    });
    let docs = ["troubleshooting", "operations", "migration"].map(|it| format!("docs/{it}.md"));
    for path in of_programs.chain(docs) {
        let text = page(&path);
        for word in ["(RSS)", "Measured on", "`make budget`, "] {
            let line = text.lines().find(|line| line.contains(word));
            assert_eq!(line, None, "{path}: figures belong to docs/figures.md");
        }
    }
}

/// The versions that the end-to-end tests run on are those that the page of the project names.
#[test]
fn readme_names_the_versions_of_the_control_plane() {
    let module = page("testing/controlplane/go.mod");
    let version = |name: &str| {
        let mut lines = module.lines().map(str::trim);
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" v"));
        line.and_then(|rest| rest.split(' ').next()).expect("a version").to_owned()
    };
    let readme = page("README.md");
    let (_, section) = readme.split_once("\n## Compatibility\n").expect("the section");
    let rows = rows(section);
    for (what, name) in [
        ("Kubernetes", "k8s.io/kubernetes"),
        ("Open Cluster Management", "open-cluster-management.io/ocm"),
    ] {
        let row = rows.iter().find(|row| row[0] == what).expect("a row");
        let version = version(name);
        assert!(
            row[1].split([' ', ',']).any(|word| word == version),
            "{what}: {version}, not {}",
            row[1]
        );
    }
}
