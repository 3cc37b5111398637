//! What people read and apply is what the programs do: links, manifests, tables for operators, messages to search for.

mod links;
mod manifests;
mod operations;
mod troubleshooting;

/// The cells of the rows of all tables in a text, without heads and rules.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let next = text.lines().skip(1).chain([""]);
    let is_row = |(line, next): &(&str, &str)| line.starts_with("| ") && !next.starts_with("|-");
    let rows = text.lines().zip(next).filter(is_row);
    rows.map(|(row, _)| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}
