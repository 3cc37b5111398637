//! Threads that end with the process.

use std::{io, thread};

pub fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop)
}
