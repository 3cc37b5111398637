//! A reader that reads the dumper's files all the time.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Instant,
};

use suite::{eventually, identity::Data, pause};

/// The sets with a certificate, and when each was first seen.
type Sets = Vec<(Instant, Data)>;

pub struct Reader {
    seen: Arc<Mutex<Sets>>,
}

impl Reader {
    pub fn of(directory: PathBuf) -> Self {
        let seen = Arc::new(Mutex::new(Sets::new()));
        let sink = Arc::downgrade(&seen);
        thread::spawn(move || {
            while let Some(seen) = sink.upgrade() {
                let set = set(&directory).filter(|set| set.contains_key("tls.crt"));
                let mut seen = seen.lock().expect("lock");
                if let Some(set) = set.filter(|set| seen.last().is_none_or(|last| last.1 != *set)) {
                    seen.push((Instant::now(), set));
                }
                drop(seen);
                pause(2);
            }
        });
        Self { seen }
    }

    /// Waits for the `number`th set (from 1); returns all so far.
    pub fn wait_for(&self, number: usize) -> Sets {
        eventually("the credential is in the files", || {
            let seen = self.seen.lock().expect("lock");
            (seen.len() >= number).then(|| seen.clone())
        })
    }
}

/// Reads all files of one set, like a reader that resolves `..data` once.
fn set(directory: &Path) -> Option<Data> {
    let generation = fs::canonicalize(directory.join("..data")).ok()?;
    let mut files = Data::new();
    for entry in fs::read_dir(generation).ok()? {
        let entry = entry.ok()?;
        files.insert(entry.file_name().into_string().ok()?, fs::read(entry.path()).ok()?);
    }
    Some(files)
}
