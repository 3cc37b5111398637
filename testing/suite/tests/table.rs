//! The table of faults in testing/README.md names what there is, and all of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

struct Row {
    number: usize,
    programs: String,
    tests: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("testing/README.md")).expect("the table");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| F"));
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_end_matches('|').split('|').map(str::trim).collect();
        let &[number, _, programs, tests] = &*cells else { panic!("four cells: {line}") };
        Row {
            number: number.parse().expect("a number"),
            programs: programs.to_owned(),
            tests: tests.split(", ").map(str::to_owned).collect(),
        }
    };
    rows.map(row).collect()
}

/// A file of the table: of this crate's tests, or by its path.
fn source(path: &str) -> Option<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    [tests.join(path), root().join(path)].iter().find_map(|path| fs::read_to_string(path).ok())
}

/// The numbers of faults in the names of the tests of a source.
fn faults(source: &str) -> Vec<usize> {
    let functions = source.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
    let number = |word: &str| word.strip_prefix('f')?.parse().ok();
    functions.flat_map(|name| name.split('_').filter_map(number)).collect()
}

#[test]
fn every_fault_is_there_with_the_programs_that_it_concerns() {
    let rows = rows();
    assert!(rows.iter().map(|row| row.number).eq(1..=60));
    for row in rows {
        let letters: Vec<_> = row.programs.split(' ').collect();
        let known = letters.iter().all(|letter| ["L", "C", "D", "R"].contains(letter));
        assert!(known && letters.is_sorted_by_key(|it| "LCDR".find(it)), "F{}", row.number);
    }
}

#[test]
fn every_test_that_is_named_exists() {
    let makefile = source("Makefile").expect("the Makefile");
    for Row { number, tests, .. } in rows() {
        for test in tests {
            let exists = match (test.strip_prefix("make "), test.split_once("::")) {
                (Some(target), _) => makefile.contains(&format!("\n{target}: ")),
                (_, Some((path, name))) => {
                    source(path).is_some_and(|text| text.contains(&format!("fn {name}()")))
                }
                _ => source(&test).is_some_and(|text| faults(&text).contains(&number)),
            };
            assert!(exists, "F{number}: there is no {test}");
        }
    }
}

#[test]
fn every_test_of_a_fault_is_named() {
    let rows = rows();
    let mut directories =
        ["bins", "shared", "testing/suite/tests"].map(|it| root().join(it)).to_vec();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                for number in faults(&text) {
                    let row = rows.iter().find(|row| row.number == number).expect("a row");
                    let named = row.tests.iter().any(|test| path.ends_with(test));
                    assert!(named, "F{number} does not name {}", path.display());
                }
            }
        }
    }
}
