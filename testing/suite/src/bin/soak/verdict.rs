//! What held and what did not, as a table.

use suite::term::{green, red};

#[derive(Default)]
pub struct Verdict {
    pub broken: bool,
}

impl Verdict {
    pub fn fact(&mut self, what: &str, value: &str) {
        println!("  {what:24}{value}");
    }

    pub fn row(&mut self, invariant: &str, seen: &str, ok: bool) {
        self.broken |= !ok;
        println!("  {invariant:4} {seen:76} {}", if ok { green("ok") } else { red("BROKEN") });
    }
}
