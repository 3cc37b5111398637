//! A Markdown table that is readable as text.

use std::sync::Mutex;

/// All printed tables, for docs/figures.md.
pub(crate) static PRINTED: Mutex<String> = Mutex::new(String::new());

/// Prints rows of equal length; the first is the header.
pub(crate) fn print(rows: &[Vec<String>]) {
    let text = text(rows);
    println!("{text}");
    *PRINTED.lock().expect("lock") += &format!("{text}\n");
}

pub(crate) fn text(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().max(3)
    };
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate();
        let line: String = cells
            .map(|(column, (cell, width))| match column {
                0 => format!("| {cell:width$} "),
                _ => format!("| {cell:>width$} "),
            })
            .collect();
        text += &format!("{line}|\n");
        if index == 0 {
            let rule = |(column, width): (usize, &usize)| match column {
                0 => format!("|{}", "-".repeat(width + 2)),
                _ => format!("|{}:", "-".repeat(width + 1)),
            };
            text += &format!("{}|\n", widths.iter().enumerate().map(rule).collect::<String>());
        }
    }
    text
}

/// A row of words.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).into()
}

/// A cell for memory.
pub(crate) fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

/// Returns the value that this fraction of the values does not exceed.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or_default()
}
