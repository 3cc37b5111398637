//! Files that programs read while they are written.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Writes a file atomically.
pub fn write(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    let new = path.with_extension("new");
    fs::write(&new, content).and_then(|()| fs::rename(&new, &path)).expect("the file is written");
    path
}

/// A directory like the kubelet's mount of a Secret: links to `..data`, which is a link to the current version.
pub struct Mount {
    pub root: PathBuf,
    version: usize,
}

impl Mount {
    /// Creates the links; the first [`Mount::publish`] writes the files.
    pub fn new(root: &Path, names: &[&str]) -> Self {
        fs::create_dir_all(root).expect("a directory");
        for name in names {
            symlink(format!("..data/{name}"), root.join(name)).expect("a link");
        }
        Self { root: root.to_owned(), version: 0 }
    }

    /// Changes all files at once (kubernetes `pkg/volume/util/atomic_writer.go`).
    pub fn publish(&mut self, files: &[(&str, &str)]) {
        let old = format!("..v{}", self.version);
        self.version += 1;
        let new = format!("..v{}", self.version);
        fs::create_dir(self.root.join(&new)).expect("a directory");
        for (name, content) in files {
            fs::write(self.root.join(&new).join(name), content).expect("a file");
        }
        symlink(&new, self.root.join("..tmp")).expect("a link");
        fs::rename(self.root.join("..tmp"), self.root.join("..data")).expect("the swap");
        let _ = fs::remove_dir_all(self.root.join(old));
    }
}
