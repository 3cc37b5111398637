//! A Secret as files, always a matching set: `content` checks the Secret, `plan` compares it with the directory
//! and lists the steps, the publisher takes them one by one. Any step may be the last one before a crash.

mod content;
mod directory;
mod disk;
mod plan;
mod publisher;

pub use self::{
    content::{Content, valid_key},
    plan::{Files, Modes},
    publisher::{PublishOutcome, Publisher},
};
