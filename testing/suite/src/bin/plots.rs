//! `make plots`: draws the tables of docs/figures.md.

use std::fs;

use suite::{
    figures::{page, root},
    plot,
};

fn main() {
    for (name, picture) in plot::all(&page("docs/figures.md")) {
        let path = root().join(format!("docs/img/{name}.svg"));
        fs::write(path, picture).expect("the picture is written");
    }
}
