//! kill -9 in a rotation: the old set or the new one, never a mixture, and the next start cleans up.

use std::{fs, process::Command};

use suite::dumper::Stage;

use crate::crash::{at_every_call, can_trace};

/// The system calls that change the directory.
const CHANGES: [&str; 5] = ["mkdirat", "fsync", "symlinkat", "renameat", "unlinkat"];

#[test]
fn kill_at_any_change_of_a_rotation_shows_one_whole_set() {
    if !can_trace() {
        return;
    }
    let (stage, old) = Stage::with_secret("kill-switch");
    assert_eq!(stage.once(&[]).0, Some(0));
    let kept = stage.directory.path().join("kept");
    let copied = Command::new("cp").arg("-a").arg(stage.path()).arg(&kept).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let mut new = stage.credentials();
    new.remove("agent-name");
    new.insert("another".into(), b"new".to_vec());
    stage.put_secret(&new);
    let killed = at_every_call(&CHANGES, &stage, &old, &new, || {
        fs::remove_dir_all(stage.path()).expect("it goes");
        let back = Command::new("cp").arg("-a").arg(&kept).arg(stage.path()).status();
        assert!(back.is_ok_and(|status| status.success()));
    });
    println!("killed {killed} times");
    assert!(killed >= 12, "{killed}");
}
