//! Commands on pages, run on the real control plane: moving from the originals and back.

mod migration;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
