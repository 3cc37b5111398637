//! The pictures of the demos are of these demos: whole runs are compared by `make recordings CHECK=1`.

use std::fs;

use suite::{
    figures::{page, root},
    recording::{COLUMNS, lines},
};

/// What the demo's steps are called, in its sources; those with a number in them are not literals.
fn steps(demo: &str) -> Vec<String> {
    let directory = root().join("testing/suite/src/bin").join(demo);
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).expect("the demo's sources").flatten() {
        let source = fs::read_to_string(entry.path()).expect("a source");
        let calls = source.split(".step(").skip(1);
        let names = calls.filter_map(|call| call.trim_start().strip_prefix('"')?.split_once('"'));
        all.extend(names.map(|(name, _)| name.to_owned()));
    }
    all
}

#[test]
fn pictures_have_the_steps_of_the_demos_in_80_columns() {
    for demo in ["demo", "demo-sync"] {
        let lines = lines(&page(&format!("docs/img/{demo}.svg")));
        let steps = steps(demo);
        assert!(steps.len() > 8 && lines.len() > steps.len(), "{demo}: {steps:?} {lines:?}");
        for step in steps {
            let drawn = lines.iter().any(|line| line.contains(&format!(" s  {step}")));
            assert!(drawn, "{demo}: no picture of {step}: make recordings");
        }
        let long = lines.iter().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(long, None, "{demo}");
    }
}

#[test]
fn the_page_of_the_project_shows_them() {
    let readme = page("README.md");
    for picture in ["overview", "demo", "demo-sync"] {
        assert!(readme.contains(&format!("](docs/img/{picture}.svg)")), "{picture}");
    }
}
