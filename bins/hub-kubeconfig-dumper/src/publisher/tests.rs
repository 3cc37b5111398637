//! The publisher on real directories: layout, modes, foreign and planted files, crashes, several dumpers.

mod rotations;

use std::{
    fs,
    mem::MaybeUninit,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    thread,
};

use rustix::fs::inotify;
use tempfile::TempDir;

use super::*;
use crate::plan::{Files, is_generation};

const MODES: Modes = Modes { directory: None, file: None };

fn publisher(path: &Path) -> Publisher {
    Publisher { path: path.to_owned(), modes: MODES }
}

pub(super) fn content(files: &[(&str, &str)]) -> Content {
    let files: Files = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec().into()))
        .collect();
    Content { complete: files.contains_key("kubeconfig"), files, expires: None }
}

/// A whole set of files with the content `version`.
fn set(version: &str) -> Content {
    content(&["kubeconfig", "tls.crt", "tls.key"].map(|name| (name, version)))
}

fn publish(path: &Path, content: &Content) -> Result<PublishOutcome> {
    publisher(path).publish(content, SystemTime::now(), &Stop::default())
}

fn read(path: &Path, name: &str) -> String {
    fs::read_to_string(path.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn generations(path: &Path) -> Vec<String> {
    names(path).into_iter().filter(|name| is_generation(name)).collect()
}

#[test]
fn the_layout_is_kubelets() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a/b");
    assert_eq!(publish(&path, &set("1")).unwrap(), PublishOutcome::Changed);
    assert_eq!(mode(&path), 0o700);
    let data = fs::read_link(path.join("..data")).unwrap();
    let generation = path.join(&data);
    assert_eq!(generations(&path), [data.to_str().unwrap()]);
    assert_eq!(mode(&generation), 0o700);
    for name in ["kubeconfig", "tls.crt", "tls.key"] {
        assert_eq!(fs::read_link(path.join(name)).unwrap(), Path::new("..data").join(name));
        assert_eq!(mode(&generation.join(name)), 0o600);
        assert_eq!(read(&path, name), "1");
    }
    assert_eq!(publish(&path, &set("1")).unwrap(), PublishOutcome::Unchanged);
    assert_eq!(generations(&path), [data.to_str().unwrap()], "nothing new, nothing written");
    assert_eq!(publish(&path, &set("2")).unwrap(), PublishOutcome::Changed);
    assert_eq!(read(&path, "tls.key"), "2");
    assert_eq!(read(&generation, "tls.key"), "1", "whoever resolved it before reads on");
}

#[test]
fn modes_ignore_the_umask_and_are_repaired() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("d");
    let modes = Modes { directory: Some(0o770), file: Some(0o664) };
    let wide = Publisher { path: path.clone(), modes };
    let publish = || wide.publish(&set("1"), SystemTime::now(), &Stop::default()).unwrap();
    let shown = || {
        let generation = path.join(fs::read_link(path.join("..data")).unwrap());
        [path.clone(), generation.clone(), generation.join("tls.key")]
    };
    for _ in 0..2 {
        assert_eq!(publish(), PublishOutcome::Changed);
        assert_eq!(shown().map(|path| mode(&path)), [0o770, 0o770, 0o664]);
        assert_eq!(publish(), PublishOutcome::Unchanged);
        for path in shown() {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        }
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2777)).unwrap();
    publish();
    assert_eq!(mode(&path), 0o2770, "the group of a volume stays");
}

#[test]
fn keys_that_are_gone_go_and_foreign_files_stay() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    fs::write(path.join("mine"), "foreign").unwrap();
    fs::write(path.join("..mine"), "foreign").unwrap();
    fs::create_dir(path.join("sub")).unwrap();
    symlink("mine", path.join("link")).unwrap();
    publish(path, &content(&[("kubeconfig", "1"), ("extra", "1")])).unwrap();
    publish(path, &content(&[("kubeconfig", "2")])).unwrap();
    assert!(fs::symlink_metadata(path.join("extra")).is_err());
    assert_eq!((read(path, "mine"), read(path, "..mine")), ("foreign".into(), "foreign".into()));
    assert!(path.join("sub").is_dir() && path.join("link").is_symlink());
    // A foreign file under a name that was ours once.
    publish(path, &content(&[("kubeconfig", "3"), ("extra", "3")])).unwrap();
    fs::remove_file(path.join("extra")).unwrap();
    fs::write(path.join("extra"), "foreign").unwrap();
    publish(path, &content(&[("kubeconfig", "4")])).unwrap();
    assert_eq!(read(path, "extra"), "foreign");
}

#[test]
fn plain_files_of_the_registration_agent_become_one_set() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    for name in ["kubeconfig", "tls.crt", "tls.key", "agent-name"] {
        fs::write(path.join(name), "old").unwrap();
    }
    publish(path, &set("new")).unwrap();
    for name in ["kubeconfig", "tls.crt", "tls.key"] {
        assert!(path.join(name).is_symlink());
        assert_eq!(read(path, name), "new");
    }
    assert_eq!(read(path, "agent-name"), "old", "no key of the Secret, no file of ours");
    let before = path.join(&generations(path)[0]);
    assert_eq!(read(&before, "tls.key"), "old", "what was there became a generation first");
}

#[test]
fn set_without_kubeconfig_never_replaces_one_with_it() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let names_only = content(&[("cluster-name", "c1"), ("agent-name", "a1")]);
    assert_eq!(publish(path, &content(&[])).unwrap(), PublishOutcome::Kept);
    assert_eq!(names(path), [""; 0]);
    assert_eq!(publish(path, &names_only).unwrap(), PublishOutcome::Changed);
    assert_eq!(read(path, "cluster-name"), "c1");
    publish(path, &set("1")).unwrap();
    assert_eq!(publish(path, &names_only).unwrap(), PublishOutcome::Kept);
    assert_eq!(publish(path, &content(&[])).unwrap(), PublishOutcome::Kept);
    assert_eq!(read(path, "tls.key"), "1");
}

#[test]
fn planted_symlinks_are_replaced_and_not_followed() {
    let directory = TempDir::new().unwrap();
    let (path, outside) = (directory.path().join("d"), directory.path().join("outside"));
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("tls.key"), "precious").unwrap();
    fs::create_dir(&path).unwrap();
    symlink(outside.join("tls.key"), path.join("tls.key")).unwrap();
    symlink(&outside, path.join("..data")).unwrap();
    symlink(&outside, path.join("..tmp-..data")).unwrap();
    symlink(&outside, path.join("..2020-01-01T00_00_00.000000Z")).unwrap();
    publish(&path, &set("1")).unwrap();
    assert_eq!(read(&path, "tls.key"), "1");
    // The same by a generation, with the current one swapped for a symlink.
    fs::remove_file(path.join("..data")).unwrap();
    symlink("..2020-01-01T00_00_00.000000Z", path.join("..data")).unwrap();
    publish(&path, &set("2")).unwrap();
    assert_eq!(read(&path, "tls.key"), "2");
    let current = path.join(fs::read_link(path.join("..data")).unwrap());
    fs::remove_file(current.join("tls.key")).unwrap();
    symlink(outside.join("tls.key"), current.join("tls.key")).unwrap();
    publish(&path, &set("2")).unwrap();
    assert_eq!(read(&path, "tls.key"), "2");
    assert_eq!(names(&outside), ["tls.key"]);
    assert_eq!(read(&outside, "tls.key"), "precious");
}

#[test]
fn fifo_in_the_way_neither_blocks_nor_survives() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let fifo = std::process::Command::new("mkfifo").arg(path.join("tls.key")).status().unwrap();
    assert!(fifo.success());
    publish(path, &set("1")).unwrap();
    assert_eq!(read(path, "tls.key"), "1");
}

#[test]
fn a_directory_in_the_way_leaves_the_old_set() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    publish(path, &set("1")).unwrap();
    fs::create_dir(path.join("extra")).unwrap();
    let error = publish(path, &content(&[("kubeconfig", "2"), ("extra", "2")])).unwrap_err();
    let sentence = "extra is a directory there: it has to be removed";
    assert!(error.to_string().ends_with(sentence), "{error}");
    assert_eq!((read(path, "kubeconfig"), generations(path).len()), ("1".into(), 1));
    fs::remove_file(path.join("..data")).unwrap();
    fs::create_dir(path.join("..data")).unwrap();
    let error = publish(path, &set("2")).unwrap_err().to_string();
    assert!(error.ends_with("..data is a directory there: it has to be removed"), "{error}");
}

#[test]
fn a_set_that_was_tampered_with_is_written_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    publish(path, &set("1")).unwrap();
    fs::write(path.join("tls.key"), "other").unwrap();
    publish(path, &set("1")).unwrap();
    assert_eq!(read(path, "tls.key"), "1");
    fs::remove_dir_all(path.join(fs::read_link(path.join("..data")).unwrap())).unwrap();
    publish(path, &set("1")).unwrap();
    fs::remove_file(path.join("tls.crt")).unwrap();
    assert_eq!(publish(path, &set("1")).unwrap(), PublishOutcome::Changed);
    assert_eq!((read(path, "tls.key"), read(path, "tls.crt")), ("1".into(), "1".into()));
}

#[test]
fn inotify_sees_one_switch_when_all_is_in_place() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    publish(path, &set("1")).unwrap();
    let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
    let watch = inotify::init(flags).unwrap();
    inotify::add_watch(&watch, path, inotify::WatchFlags::MOVED_TO).unwrap();
    publish(path, &content(&[("kubeconfig", "2"), ("extra", "2")])).unwrap();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&watch, &mut buffer);
    let mut names = Vec::new();
    while let Ok(event) = reader.next() {
        names.push(event.file_name().unwrap().to_str().unwrap().to_owned());
    }
    assert_eq!(names, ["extra", "..data"]);
}

#[test]
fn the_longest_key_fits() {
    let directory = TempDir::new().unwrap();
    let key = "k".repeat(253);
    publish(directory.path(), &content(&[("kubeconfig", "1"), (&key, "1")])).unwrap();
    assert_eq!(read(directory.path(), &key), "1");
}

#[test]
fn two_dumpers_on_one_directory_do_no_harm() {
    let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let path = directory.path();
    publish(path, &set("0")).unwrap();
    thread::scope(|scope| {
        for dumper in ["a", "b"] {
            scope.spawn(move || {
                for round in 0..200 {
                    // Two dumpers that never pause may share the lock unfairly; one that waited in vain
                    // says so.
                    let is_done = (0..30).any(|_| {
                        let done = publish(path, &set(&format!("{dumper}{round}")));
                        let error = done.as_ref().err().map(ToString::to_string);
                        let is_locked = |it: &String| it.ends_with("is locked by another process");
                        assert!(error.as_ref().is_none_or(is_locked), "{error:?}");
                        done.is_ok()
                    });
                    assert!(is_done, "the lock is never given back");
                }
            });
        }
        for _ in 0..2000 {
            let generation = path.join(fs::read_link(path.join("..data")).unwrap());
            let versions = ["kubeconfig", "tls.crt", "tls.key"].map(|name| read(&generation, name));
            assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
        }
    });
    assert!(["a199", "b199"].contains(&&*read(path, "tls.key")));
    assert!(!names(path).iter().any(|name| name.starts_with("..tmp-")));
}

#[test]
fn lock_that_is_never_given_back_is_an_error() {
    let directory = TempDir::new().unwrap();
    let holder = Directory::create(directory.path(), 0o700).unwrap();
    assert!(holder.lock().unwrap());
    let stop = Stop::default();
    stop.raise();
    let error = publisher(directory.path()).publish(&set("1"), SystemTime::now(), &stop);
    assert!(error.unwrap_err().to_string().ends_with("is locked by another process"));
    drop(holder);
    publish(directory.path(), &set("1")).unwrap();
}
