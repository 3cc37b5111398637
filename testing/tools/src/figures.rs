//! The blocks of docs/figures.md, written by the programs that measure.

use std::{env, fs, time::SystemTime};

use apiclient::time::seconds_time;
use suite::repository::{block, root};

/// Writes a block of docs/figures.md if `FIGURES` is in the environment. Otherwise a run only compares with limits.
pub fn publish(name: &str, text: &str) {
    if env::var_os("FIGURES").is_some() {
        let path = root().join("docs/figures.md");
        let page = fs::read_to_string(&path).expect("docs/figures.md");
        let old = block(&page, name).unwrap_or_else(|| panic!("there is no block {name}"));
        let mark = format!("<!-- {name} -->\n");
        let page = page.replacen(&format!("{mark}{old}"), &format!("{mark}{text}"), 1);
        fs::write(&path, page).expect("docs/figures.md is written");
        println!("The block {name} of docs/figures.md is written.");
    }
}

/// Returns today's date, for the headings of figures.
pub fn today() -> String {
    seconds_time(SystemTime::now())[..10].to_owned()
}
