//! Files that programs read while they are written.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Writes a file in one step.
pub fn write(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    let new = path.with_extension("new");
    fs::write(&new, content).and_then(|()| fs::rename(&new, &path)).expect("the file is written");
    path
}
