//! F54: three kinds of readers in tight loops while the set rotates 10,000 times. The REFERENCE promises each
//! of them what is counted here.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::{tests::content, *};

const ROTATIONS: u32 = 10_000;
/// The publisher's time between two rotations: with 10 s of grace a reader has 100 rotations, some tenths
/// of a second here.
const STEP: Duration = Duration::from_millis(100);
const FILES: [&str; 3] = ["kubeconfig", "tls.crt", "tls.key"];
/// Longer than a page, so that a partial file would be seen.
const SIZE: usize = 6000;

#[derive(Debug, Default)]
struct Count {
    reads: u64,
    mixed: u64,
    /// Mixed at the second attempt too.
    again: u64,
    /// Mixed at each of many attempts.
    lasting: u64,
}

fn version(number: u32) -> Content {
    let text = format!("{number:06}").repeat(SIZE / 6);
    content(&["kubeconfig", "tls.crt", "tls.key", "flat"].map(|name| (name, &*text)))
}

/// The version that a file holds; a missing, empty or partial one ends the test.
fn read(path: PathBuf) -> String {
    let mut text = String::new();
    let read = File::open(&path).and_then(|mut file| file.read_to_string(&mut text));
    read.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(text.len(), SIZE, "{} is whole", path.display());
    let version = text[..6].to_owned();
    assert_eq!(text, version.repeat(SIZE / 6), "{} is of one version", path.display());
    version
}

fn is_mixed(directory: &Path) -> bool {
    let versions = FILES.map(|name| read(directory.join(name)));
    versions.iter().any(|version| *version != versions[0])
}

/// Resolves the switch once and reads the set there.
fn resolved(path: &Path) -> Count {
    let target = fs::read_link(path.join("..data")).unwrap();
    Count { reads: 1, mixed: is_mixed(&path.join(target)).into(), ..Count::default() }
}

/// Reads the one file that holds everything.
fn flattened(path: &Path) -> Count {
    // `read` has compared all of it.
    read(path.join("flat"));
    Count { reads: 1, ..Count::default() }
}

/// Reads file by file, and again while the set is mixed. Here the next rotation follows at once; the
/// program leaves a second between two.
fn by_path(path: &Path) -> Count {
    let tries = (0..50).take_while(|_| is_mixed(path)).count();
    let at_least = |count| u64::from(tries >= count);
    Count { reads: 1, mixed: at_least(1), again: at_least(2), lasting: at_least(50) }
}

#[test]
fn f54_ten_thousand_rotations_under_three_kinds_of_readers() {
    let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let path = directory.path();
    let publisher = Publisher { path: path.to_owned(), modes: Modes::default() };
    let begun = SystemTime::now();
    let rotate = |number: u32| {
        publisher.publish(&version(number), begun + STEP * number, &Stop::default()).unwrap()
    };
    rotate(0);
    let over = &AtomicBool::new(false);
    let [resolved, flattened, by_path] = thread::scope(|scope| {
        let readers = [resolved, flattened, by_path].map(|reader: fn(&Path) -> Count| {
            scope.spawn(move || {
                let mut sum = Count::default();
                while !over.load(SeqCst) {
                    let count = reader(path);
                    sum.reads += count.reads;
                    sum.mixed += count.mixed;
                    sum.again += count.again;
                    sum.lasting += count.lasting;
                }
                sum
            })
        });
        for number in 1..=ROTATIONS {
            assert_eq!(rotate(number), PublishOutcome::Changed);
        }
        over.store(true, SeqCst);
        readers.map(|reader| reader.join().unwrap())
    });
    println!("resolved {resolved:?}\nflattened {flattened:?}\nby path {by_path:?}");
    for count in [&resolved, &flattened, &by_path] {
        assert!(count.reads > 1000, "{count:?}");
    }
    assert_eq!((resolved.mixed, by_path.lasting), (0, 0));
    // At most once per switch, and then almost always right at the second attempt.
    assert!(by_path.mixed <= u64::from(ROTATIONS), "{by_path:?}");
    assert!(by_path.again * 10 <= by_path.mixed, "{by_path:?}");
}
