//! Files of the repository, and the marked blocks in its pages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn page(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text between the marks of this name on a page, without the marks' lines.
pub fn block<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("<!-- {name} -->\n"))?;
    Some(rest.split_once("<!-- end -->")?.0)
}

/// Returns the objects of a file in manifests/; `names` replaces placeholders that a component fills.
pub fn objects(file: &str, names: &[(&str, &str)]) -> Vec<Value> {
    let text = page(Path::new("manifests").join(file));
    let text = names.iter().fold(text, |text, (place, name)| text.replace(place, name));
    text.split("\n---\n").map(|text| serde_yaml::from_str(text).expect("YAML")).collect()
}
