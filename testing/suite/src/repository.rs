//! Pages of the repository, and the tables on them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A row of a table: its cells, of which the first is its name.
pub type Row = Vec<String>;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page of the repository.
pub fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What is between the marks of this name on a page, without the lines of the marks.
pub fn block<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("<!-- {name} -->\n"))?;
    Some(rest.split_once("<!-- end -->")?.0)
}

/// The rows of the tables in a text of Markdown, without heads and rules.
pub fn rows(text: &str) -> Vec<Row> {
    let lines: Vec<_> = text.lines().collect();
    let is_rule = |line: &str| line.starts_with("|-");
    let wanted = |index: &usize| {
        let head = lines.get(index + 1).is_some_and(|next| is_rule(next));
        lines[*index].starts_with("| ") && !head
    };
    (0..lines.len()).filter(wanted).map(|index| cells(lines[index])).collect()
}

fn cells(line: &str) -> Row {
    let inner = line.trim_start_matches('|').trim_end().trim_end_matches('|');
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}
