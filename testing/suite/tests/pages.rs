//! The pages: links lead somewhere, and the first ones of a reader are one page each.

use std::collections::BTreeSet;

use suite::figures::{page, root};

const PROGRAMS: [&str; 4] =
    ["addon-lease-controller", "csr-bootstrapper", "hub-kubeconfig-dumper", "remote-sync"];

fn pages() -> Vec<String> {
    let of_programs = PROGRAMS.iter().flat_map(|program| {
        ["README", "REFERENCE"].map(|page| format!("bins/{program}/{page}.md"))
    });
    let docs = ["figures", "migration", "operations", "troubleshooting"];
    let docs = docs.iter().map(|name| format!("docs/{name}.md"));
    let others = ["README.md", "ARCHITECTURE.md", "manifests/README.md"].map(str::to_owned);
    of_programs.chain(docs).chain(others).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let headings = text.lines().filter(|line| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    });
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    for name in pages() {
        let text = page(&name);
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("http") && !link.contains(' ')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let here = root().join(&name);
            let there = match path {
                "" => here,
                path => here.parent().expect("a directory").join(path),
            };
            assert!(there.exists(), "{name}: {link}");
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&there).expect("a page");
                assert!(anchors(&text).contains(anchor), "{name}: {link}: {:?}", anchors(&text));
            }
        }
    }
}

#[test]
fn the_page_of_the_manifests_lists_all_directories() {
    let text = page("manifests/README.md");
    for entry in std::fs::read_dir(root().join("manifests")).expect("a directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        assert!(name == "README.md" || text.contains(&format!("| [{name}](")), "{name}");
    }
}

/// What fits a screen or two; details are in the references.
#[test]
fn a_program_has_one_page() {
    for program in PROGRAMS {
        let text = page(&format!("bins/{program}/README.md"));
        assert!(text.lines().count() <= 80, "{program}: {} lines", text.lines().count());
        for section in ["## Quick start", "## See that it works", "## More"] {
            assert!(text.contains(section), "{program}: {section}");
        }
    }
}
