//! Files of the repository, and the blocks that its pages mark.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn page(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is between the marks of this name on a page, without the lines of the marks.
pub fn block<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("<!-- {name} -->\n"))?;
    Some(rest.split_once("<!-- end -->")?.0)
}
