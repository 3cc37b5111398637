//! docs/figures.md: the one place of each figure. What measures writes its block there, pages and pictures are made
//! from it, and tests compare them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use shared::time::seconds_time;

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

/// The page with another block of this name, which has to be there.
pub fn with_block(page: &str, name: &str, text: &str) -> String {
    let old = block(page, name).unwrap_or_else(|| panic!("there is no block {name}"));
    let mark = format!("<!-- {name} -->\n");
    page.replacen(&format!("{mark}{old}"), &format!("{mark}{text}"), 1)
}

/// Writes a block of docs/figures.md, with `FIGURES=1` in the environment: otherwise a run only compares with limits.
pub fn publish(name: &str, text: &str) {
    if env::var_os("FIGURES").is_some() {
        let path = root().join("docs/figures.md");
        let page = fs::read_to_string(&path).expect("docs/figures.md");
        fs::write(&path, with_block(&page, name, text)).expect("docs/figures.md is written");
        println!("The block {name} of docs/figures.md is written.");
    }
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

/// The number that a cell begins with.
pub fn number(cell: &str) -> f64 {
    let digits = |c: &char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let text: String = cell.chars().take_while(digits).filter(|c| *c != ',').collect();
    text.parse().unwrap_or_else(|_| panic!("{cell:?} begins with no number"))
}

/// Today, as the heads of figures say it.
pub fn today() -> String {
    seconds_time(SystemTime::now())[..10].to_owned()
}

/// What an agent takes on one cluster and on a fleet, for README.md, from the block `footprint`.
pub fn savings(figures: &str) -> String {
    let all = rows(block(figures, "footprint").expect("the footprint"));
    let find = |name: &str| all.iter().find(|row| row[0].starts_with(name));
    let memory = |row: &Row| number(&row[2]);
    let ours = ["csr-bootstrapper", "hub-kubeconfig-dumper"].map(|name| find(name).expect("a row"));
    let theirs = find("registration agent").expect("a row");
    let sum: f64 = ours.iter().map(|row| memory(row)).sum();
    let gib = |mib: f64| format!("{:.1} GiB", mib * FLEET / 1024.0);
    let line = |name: &str, bytes: String, mib: f64| {
        format!("| {name} | {bytes} | {mib:.1} MiB | {} |\n", gib(mib))
    };
    let size = |all: &[&Row]| {
        let bytes: f64 = all.iter().map(|row| number(&row[1])).sum();
        format!("{:.1} MB", bytes / 1e6)
    };
    let mut text =
        format!("| | programs | memory, one cluster | {FLEET} clusters |\n|---|---:|---:|---:|\n");
    text += &line("OCM's registration agent", size(&[theirs]), memory(theirs));
    text += &line("csr-bootstrapper and hub-kubeconfig-dumper", size(&ours), sum);
    text += &line("**saved**", String::new(), memory(theirs) - sum);
    let (single, work) = (find("registration and work agent"), find("work agent"));
    if let (Some(single), Some(work)) = (single, work) {
        let name = "OCM's registration and work agents";
        text += &line(name, size(&[theirs, work]), memory(theirs) + memory(work));
        let name = "both in one process (`klusterlet --singleton`)";
        text += &line(name, size(&[single]), memory(single));
        let all = size(&[ours[0], ours[1], work]);
        text += &line("csr-bootstrapper, dumper, OCM's work agent", all, sum + memory(work));
    }
    text
}

/// Clusters of the fleet that the page reckons with.
const FLEET: f64 = 500.0;
