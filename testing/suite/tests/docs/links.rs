//! Relative links of all pages lead to a file and a heading.

use std::{collections::BTreeSet, fs, process::Command};

use suite::repository::{page, root};

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
fn links_lead_to_a_file_and_a_heading() {
    let list = Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output();
    let list = String::from_utf8(list.expect("git").stdout).expect("UTF-8");
    assert!(list.lines().count() > 10, "pages: {list}");
    for name in list.lines() {
        let text = page(name);
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("http") && !link.contains(' ')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let here = root().join(name);
            let there = if path.is_empty() { here } else { here.with_file_name(path) };
            assert!(there.exists(), "{name}: {link}");
            if !anchor.is_empty() {
                let text = fs::read_to_string(&there).expect("a page");
                assert!(anchors(&text).contains(anchor), "{name}: {link}");
            }
        }
    }
}

#[test]
fn runbooks_of_alerts_are_headings() {
    let rules = page("manifests/monitoring/prometheusrule.yaml");
    let runbooks: Vec<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("runbook: ")).collect();
    assert_eq!(runbooks.len(), rules.matches("- alert: ").count());
    for runbook in runbooks {
        let (name, anchor) = runbook.split_once('#').expect("a heading");
        assert!(anchors(&page(name)).contains(anchor), "{runbook}");
    }
}

/// SECURITY.md names the tests that try each of its promises.
#[test]
fn security_names_tests_that_exist() {
    let text = page("SECURITY.md");
    let named = text.split(|c: char| c.is_whitespace() || "|,`".contains(c));
    let named: Vec<_> = named.filter_map(|word| word.split_once(".rs::")).collect();
    assert!(named.len() > 20, "SECURITY.md names {} tests", named.len());
    for (file, test) in named {
        let file = format!("{file}.rs");
        let paths = [root().join(&file), root().join("testing/suite/tests").join(&file)];
        let source = paths.iter().find_map(|path| fs::read_to_string(path).ok());
        let source = source.unwrap_or_else(|| panic!("SECURITY.md names {file}"));
        assert!(source.contains(&format!("fn {test}()")), "{file} has no {test}");
    }
}
