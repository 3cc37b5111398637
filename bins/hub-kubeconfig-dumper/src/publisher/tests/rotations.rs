//! Readers in tight loops while the set rotates hundreds of times. The REFERENCE promises them what is checked here.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::*;

const ROTATIONS: u32 = 500;
/// The publisher's time between two rotations: its grace of 10 s is 100 of them.
const STEP: Duration = Duration::from_millis(100);
/// So many rotations a read may take. The publisher waits for readers that need longer, so that a busy machine makes
/// none miss the grace.
const MAX_READ_ROTATIONS: u32 = 90;
const FILES: [&str; 3] = ["kubeconfig", "tls.crt", "tls.key"];
/// Longer than a page, so that a partial file would be seen.
const SIZE: usize = 6000;

fn version(number: u32) -> Content {
    let text = format!("{number:06}").repeat(SIZE / 6);
    content(&["kubeconfig", "tls.crt", "tls.key", "flat"].map(|name| (name, &*text)))
}

/// The version that a file holds; a missing, empty, partial or mixed one ends the test.
fn read(path: PathBuf) -> String {
    let mut text = String::new();
    let read = File::open(&path).and_then(|mut file| file.read_to_string(&mut text));
    read.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(text.len(), SIZE, "{} is whole", path.display());
    let version = text[..6].to_owned();
    assert_eq!(text, version.repeat(SIZE / 6), "{} is of one version", path.display());
    version
}

/// Whoever resolves the switch once reads one version of all files.
fn resolved(path: &Path) {
    let generation = path.join(fs::read_link(path.join("..data")).unwrap());
    let versions = FILES.map(|name| read(generation.join(name)));
    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
}

/// Whoever reads by the usual paths, or the one file that holds everything, reads whole files.
fn by_path(path: &Path) {
    for name in FILES.into_iter().chain(["flat"]) {
        read(path.join(name));
    }
}

#[test]
fn readers_during_rotations_see_whole_files_and_sets() {
    let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let path = directory.path();
    let publisher = Publisher { path: path.to_owned(), modes: Modes::default() };
    let begun = SystemTime::now();
    let rotate = |number: u32| {
        publisher.publish(&version(number), begun + STEP * number, &Stop::default()).unwrap()
    };
    rotate(0);
    let (over, current) = (&AtomicBool::new(false), &AtomicU32::new(0));
    // The rotation at which each reader's present read began.
    let reads = &[AtomicU32::new(0), AtomicU32::new(0)];
    thread::scope(|scope| {
        let readers = [resolved, by_path];
        let readers = readers.map(|reader: fn(&Path)| reader).into_iter().zip(reads);
        let readers: Vec<_> = readers
            .map(|(reader, read)| {
                scope.spawn(move || {
                    while !over.load(SeqCst) {
                        read.store(current.load(SeqCst), SeqCst);
                        reader(path);
                    }
                })
            })
            .collect();
        for number in 1..=ROTATIONS {
            let is_late = |read: &AtomicU32| number > read.load(SeqCst) + MAX_READ_ROTATIONS;
            while reads.iter().any(is_late) && !readers.iter().any(|it| it.is_finished()) {
                thread::yield_now();
            }
            assert_eq!(rotate(number), PublishOutcome::Changed);
            current.store(number, SeqCst);
        }
        over.store(true, SeqCst);
    });
    assert!(reads.iter().all(|read| read.load(SeqCst) + MAX_READ_ROTATIONS >= ROTATIONS));
}
