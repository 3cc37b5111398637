//! What people read and apply is what the programs do: links, manifests, tables for operators, messages to search for.

mod links;
mod manifests;
mod operations;
mod troubleshooting;

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page of the repository.
fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text between the marks of this name on a page.
#[track_caller]
fn block<'a>(page: &'a str, name: &str) -> &'a str {
    let begin = format!("<!-- {name} -->\n");
    let (_, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no page has {begin}"));
    rest.split_once("<!-- end -->").expect("the end of the block").0
}

/// The cells of the rows of all tables in a text, without heads and rules.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let next = text.lines().skip(1).chain([""]);
    let is_row = |(line, next): &(&str, &str)| line.starts_with("| ") && !next.starts_with("|-");
    let rows = text.lines().zip(next).filter(is_row);
    rows.map(|(row, _)| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}
