//! The tables of testing/README.md and testing/suite/README.md name the tests that there are, and every test
//! whose name carries a number; each claim of SECURITY.md names one that there is.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What is counted, and how far; of OCM's defects some do not concern what is built here.
const COMPLETE: [(&str, usize, usize); 6] = [
    ("f", 60, 1),
    ("i", 12, 1),
    ("t", 8, 1),
    ("kalc", 30, 2),
    ("kalc_row_", 14, 1),
    ("gap", 29, 2),
];

struct Row {
    numbers: Vec<String>,
    cells: Vec<String>,
}

impl Row {
    fn tests(&self) -> impl Iterator<Item = &str> {
        self.cells.last().into_iter().flat_map(|cell| cell.split(", "))
    }

    fn says(&self) -> String {
        format!("{}: {}", self.numbers.join(", "), self.cells[1])
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of all tables that list tests by their numbers, or files by what is in them.
fn rows() -> Vec<Row> {
    let files = ["testing/README.md", "testing/suite/README.md"];
    let texts = files.map(|file| fs::read_to_string(root().join(file)).expect("a README"));
    texts.iter().flat_map(|text| text.lines()).filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let inner = line.strip_prefix("| ")?.trim_end().strip_suffix('|')?;
    let cells: Vec<_> = inner.split('|').map(|cell| cell.trim().to_owned()).collect();
    let numbers = numbers_of(&cells[0])?;
    (cells.len() > 2 && cells.last()? != "Tests").then_some(Row { numbers, cells })
}

/// `F7`, `gap01, gap02` or `t1 to t8`; nothing at all is no number, and other words make it another table.
fn numbers_of(cell: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for part in cell.split(", ").filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once(" to ").unwrap_or((part, part));
        let [first, last] = [first, last].map(|number| carried(&number.to_lowercase()));
        let ([first], [last]) = (&*first, &*last) else { return None };
        let digits = first.find(|c: char| c.is_ascii_digit())?;
        let (family, width) = (&first[..digits], first.len() - digits);
        let end = last[digits..].parse().ok()?;
        let range = first[digits..].parse::<usize>().ok()?..=end;
        numbers.extend(range.map(|number| format!("{family}{number:0width$}")));
    }
    Some(numbers)
}

/// The numbers in the name of a test: of a word such as `f7`, `ocm02` or `i10`, of `kalc_row_4` or `kalc_d97`.
fn carried(name: &str) -> Vec<String> {
    let is = |word: &str, families: &[&str]| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let family = word.strip_suffix(digits).unwrap_or_default();
        families.contains(&family) && digits.parse::<usize>().is_ok()
    };
    let words: Vec<_> = name.split('_').collect();
    let at = |place: usize| match words[place..] {
        ["kalc", "row", number, ..] if is(number, &[""]) => Some(format!("kalc_row_{number}")),
        ["kalc", line, ..] if is(line, &["d"]) => Some(format!("kalc_{line}")),
        [word, ..] if is(word, &["f", "i", "t", "s", "kalc", "ocm", "gap"]) => {
            Some(word.to_owned())
        }
        _ => None,
    };
    (0..words.len()).filter_map(at).collect()
}

/// A file of the tables: of this crate's tests, or by its path.
fn source(path: &str) -> Option<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    [tests.join(path), root().join(path)].iter().find_map(|path| fs::read_to_string(path).ok())
}

/// The names of the tests of a source.
fn tests(source: &str) -> impl Iterator<Item = &str> {
    let functions = source.split("#[test]\n").skip(1).filter_map(|rest| rest.split_once("fn "));
    functions.filter_map(|(_, rest)| rest.split('(').next())
}

fn carries(source: &str, number: &str) -> bool {
    tests(source).any(|name| carried(name).iter().any(|carried| carried == number))
}

#[test]
fn every_number_is_there_once() {
    let rows = rows();
    let mut counts = BTreeMap::new();
    for number in rows.iter().flat_map(|row| &row.numbers) {
        *counts.entry(number.as_str()).or_insert(0) += 1;
    }
    for (family, last, width) in COMPLETE {
        for number in (1..=last).map(|number| format!("{family}{number:0width$}")) {
            assert_eq!(counts.get(&*number), Some(&1), "{number}");
        }
    }
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[test]
fn every_fault_names_the_programs_that_it_concerns() {
    let rows = rows();
    let faults = rows.iter().filter(|row| row.cells[0].starts_with('F'));
    for row in faults {
        let [_, _, programs, _] = &*row.cells else { panic!("four cells: {}", row.says()) };
        let letters: Vec<_> = programs.split(' ').collect();
        let known = letters.iter().all(|letter| ["L", "C", "D", "R"].contains(letter));
        assert!(known && letters.is_sorted_by_key(|it| "LCDR".find(it)), "{}", row.says());
    }
}

#[test]
fn every_test_that_is_named_exists() {
    let makefile = source("Makefile").expect("the Makefile");
    for row in rows() {
        let files: Vec<_> = row.tests().filter(|test| test.ends_with(".rs")).collect();
        for test in row.tests() {
            let exists = match (test.strip_prefix("make "), test.split_once("::")) {
                (Some(target), _) => makefile.contains(&format!("\n{target}: ")),
                (_, Some((path, name))) => {
                    source(path).is_some_and(|text| tests(&text).any(|test| test == name))
                }
                _ => source(test).is_some_and(|text| {
                    row.numbers.is_empty() || row.numbers.iter().any(|it| carries(&text, it))
                }),
            };
            assert!(exists, "{}: there is no {test}", row.says());
        }
        let texts: Vec<_> = files.into_iter().filter_map(source).collect();
        for number in row.numbers.iter().filter(|_| !texts.is_empty()) {
            let held = texts.iter().any(|text| carries(text, number));
            assert!(held, "{}: {number} is in none of its files", row.says());
        }
    }
}

#[test]
fn every_claim_about_security_names_its_tests() {
    let text = fs::read_to_string(root().join("SECURITY.md")).expect("the document");
    let headings = text.lines().filter(|line| *line == "| Who | cannot | Tests |").count();
    let rows: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("| ")).collect();
    let claims: Vec<_> = rows.iter().filter(|row| !row.starts_with("Who | ")).collect();
    assert!(headings == 5 && claims.len() > headings, "{} claims", claims.len());
    for claim in claims {
        let (_, named) = claim.trim_end_matches(" |").rsplit_once(" | ").expect("a last cell");
        for test in named.split(", ") {
            let there = test.split_once("::").is_some_and(|(path, name)| {
                source(path).is_some_and(|text| tests(&text).any(|test| test == name))
            });
            assert!(there, "there is no {test}: {claim}");
        }
    }
}

#[test]
fn every_test_with_a_number_is_named() {
    let rows = rows();
    let mut directories = ["bins", "shared", "testing/suite"].map(|it| root().join(it)).to_vec();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                are_named(&rows, &path);
            }
        }
    }
}

/// Checks that the row of each number in this file names the file, or the test.
fn are_named(rows: &[Row], path: &Path) {
    let text = fs::read_to_string(path).expect("a source");
    for name in tests(&text) {
        for number in carried(name) {
            let row = rows.iter().find(|row| row.numbers.contains(&number));
            let row = row.unwrap_or_else(|| panic!("no table has {number} of {name}"));
            let is_this = |test: &str| match test.split_once("::") {
                Some((file, test)) => path.ends_with(file) && test == name,
                None => path.ends_with(test),
            };
            assert!(row.tests().any(is_this), "{number} does not name {} {name}", path.display());
        }
    }
}
