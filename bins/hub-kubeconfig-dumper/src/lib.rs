//! A Secret as files, always a matching set: `content` validates the Secret, `plan` compares it with the directory and
//! lists the steps, `publisher` performs them. A crash may follow any step.

mod content;
mod directory;
mod disk;
pub mod flatten;
mod plan;
mod publisher;

use std::time::Duration;

pub use self::{
    content::{Content, valid_key},
    plan::{Files, Modes},
    publisher::{PublishOutcome, Publisher},
};

/// The registration agent's resync interval (ocm `pkg/registration/spoke/registration/secret_controller.go:60`):
/// somebody may have changed the files.
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(300);
/// Faster changes of the Secret are combined, which also bounds the generations on disk.
pub const MIN_INTERVAL: Duration = Duration::from_secs(1);
