//! kill -9 at every system call that touches the files, by strace: the old set or the new one, never a mixture, and the
//! next start cleans up.

use std::{fs, os::unix::process::ExitStatusExt, process::ExitStatus};

use suite::{
    dumper::{Stage, hidden, set},
    identity::Data,
    needs::{Need, needs},
    outputs,
    sidecar::{bare, program},
};

/// All that look at the directory or change it; the first ones of some are the start of the process.
const CALLS: [&str; 15] = [
    "mkdir",
    "mkdirat",
    "openat",
    "flock",
    "getdents64",
    "fchmod",
    "write",
    "fsync",
    "close",
    "symlinkat",
    "renameat",
    "unlinkat",
    "readlinkat",
    "fstat",
    "newfstatat",
];

/// Runs the dumper once; it dies when a thread of it is about to make the call for the nth time.
fn run(stage: &Stage, call: &str, nth: u32) -> ExitStatus {
    let mut command = bare("strace".as_ref());
    command
        .args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
        .arg(program("hub-kubeconfig-dumper"))
        .arg("-once");
    stage.arguments(&mut command, 0);
    outputs::run(&mut command).status
}

/// Takes the directory back to how it was, at every call that there is, and kills there.
pub(crate) fn at_every_call(
    calls: &[&str],
    stage: &Stage,
    old: &Data,
    new: &Data,
    reset: impl Fn(),
) -> u32 {
    let mut killed = 0;
    for call in calls {
        for nth in 1.. {
            reset();
            let status = run(stage, call, nth);
            let shown = set(&stage.path());
            assert!(
                shown == *old || shown == *new,
                "a mixture after {call} {nth}: {:?}",
                shown.keys()
            );
            if status.signal() != Some(9) {
                assert!(status.success(), "{call} {nth}: {status}");
                break;
            }
            killed += 1;
            assert_eq!(stage.once(&[]).0, Some(0), "the next start after {call} {nth}");
            stage.shows(new);
            let (generations, others) = hidden(&stage.path());
            assert!(
                generations <= 2 && others == ["..data"],
                "{call} {nth}: {generations} {others:?}"
            );
        }
    }
    killed
}

pub(crate) fn can_trace() -> bool {
    let trace = ["strace", "-o", "/dev/null", "true"];
    needs(Need::Tool(&trace), "there is no strace, or no right to use it")
}

#[test]
fn kill_at_any_call_of_a_takeover_shows_one_whole_set() {
    if !can_trace() {
        return;
    }
    let (stage, new) = Stage::with_secret("kill-takeover");
    let old = stage.credentials();
    let killed = at_every_call(&CALLS, &stage, &old, &new, || {
        let _ = fs::remove_dir_all(stage.path());
        fs::create_dir_all(stage.path()).expect("the directory");
        for (name, content) in &old {
            fs::write(stage.path().join(name), content).expect("a file");
        }
    });
    println!("killed {killed} times");
    assert!(killed > 100, "{killed}");
}

/// A kill shows nothing of what a loss of power takes: each file is on the disk before the switch, and the
/// directories too, before it and after.
#[test]
fn files_reach_the_disk_before_the_switch() {
    if !can_trace() {
        return;
    }
    let (stage, _) = Stage::with_secret("durable");
    assert_eq!(stage.once(&[]).0, Some(0));
    let new = stage.credentials();
    stage.put_secret(&new);
    let log = stage.directory.path().join("calls");
    let mut command = bare("strace".as_ref());
    command.args(["-f", "-y", "-o"]).arg(&log).arg("-etrace=write,fsync,symlinkat,renameat");
    command.arg(program("hub-kubeconfig-dumper")).arg("-once");
    stage.arguments(&mut command, 0);
    assert!(outputs::run(&mut command).status.success());
    let log = fs::read_to_string(log).expect("its log");
    let path = fs::canonicalize(stage.path()).expect("the directory");
    let root = path.to_str().expect("a path");
    let calls: Vec<_> = log.lines().filter_map(|line| call(line, root)).collect();
    let switch = calls.iter().position(|(name, _)| *name == "renameat").expect("the switch");
    let (before, after) = calls.split_at(switch);
    let at = |name: &str, path: &str| before.iter().rposition(|it| *it == (name, path));
    let written: Vec<_> = before.iter().filter(|(name, _)| *name == "write").collect();
    assert!(written.len() >= new.len(), "{log}");
    let generation = written[0].1.split('/').next().expect("its directory");
    for (_, file) in written {
        assert!(at("fsync", file) > at("write", file), "{file}\n{log}");
    }
    let last = before.iter().rposition(|(name, _)| *name == "write");
    assert!(at("fsync", generation) > last, "{generation}\n{log}");
    assert!(at("fsync", "") > last, "{log}");
    assert!(after.contains(&("fsync", "")), "{log}");
}

/// The name of a call and the path below `root` that it is about: `12 fsync(7</root/x>) = 0`.
fn call<'a>(line: &'a str, root: &str) -> Option<(&'a str, &'a str)> {
    let (name, rest) = line.split_once(' ')?.1.trim_start().split_once('(')?;
    let path = rest.split_once('<')?.1.split_once('>')?.0.strip_prefix(root)?;
    Some((name, path.trim_start_matches('/')))
}
