//! Commands on pages, run on the real control plane: quick starts, and moving from the originals and back.

mod migration;
mod pods;
mod quickstart;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
