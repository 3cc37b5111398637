//! What the process itself is denied: F27 and F28.

use std::{
    io::{Write, pipe},
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use suite::{
    Stopwatch,
    ending::ending,
    eventually,
    faults::code,
    pause,
    scene::Scene,
    sidecar::{Sidecar, behind, free_port},
};

use crate::faults::support::{faults, requests, rule, stored, wait_for_renewal};

#[test]
fn f27_a_closed_stderr_and_stdout_change_nothing() {
    let scene = Scene::new("closed");
    let port = free_port();
    let command = scene.command(port);
    let shell = r#"exec "$0" "$@" -v 5 >&- 2>&-"#;
    let mut sidecar = Sidecar::spawn(behind(&["sh", "-c", shell], &command), port);
    eventually("the Lease is there", || stored(&scene));
    faults(&scene).add(rule(&scene, "update", code(409)).times(2));
    wait_for_renewal(&scene);
    wait_for_renewal(&scene);
    sidecar.ends_at_once();
    assert_eq!(sidecar.log(), "");
}

#[test]
fn f27_a_reader_that_never_reads_costs_lines_and_no_renewal() {
    let scene = Scene::new("full");
    let (_reader, mut writer) = pipe().expect("a pipe");
    // What a pipe holds (pipe(7)): the first line of the log finds it full.
    writer.write_all(&[b'x'; 64 << 10]).expect("it is filled");
    let mut command = scene.command(free_port());
    command.args(["-v", "5"]).stderr(Stdio::from(writer));
    let mut child = command.spawn().expect("the program starts");
    eventually("the Lease is there", || stored(&scene));
    // More lines than wait in memory.
    let storm = faults(&scene).add(rule(&scene, "update", code(503)));
    pause(500);
    faults(&scene).remove(storm);
    for _ in 0..3 {
        wait_for_renewal(&scene);
    }
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let (status, time) = ending(&mut child);
    assert_eq!(status.code(), Some(0));
    assert!(time < Duration::from_secs(1), "{time:?}");
}

/// Starts it with no more than `descriptors` descriptors.
fn limited(scene: &Scene, descriptors: usize) -> Sidecar {
    let port = free_port();
    let command = scene.command(port);
    let limit = format!("--nofile={descriptors}:64");
    Sidecar::spawn(behind(&["prlimit", &limit], &command), port)
}

/// How often it says that it has too few.
fn lacks(sidecar: &Sidecar) -> usize {
    sidecar.count("Too many open files") + sidecar.count("os error 24")
}

#[test]
fn f28_too_few_descriptors_are_named_and_waited_for() {
    let scene = Scene::new("descriptors");
    let normal = scene.start(&[]);
    normal.wait_for("is renewed every");
    let needed = normal.descriptors();
    drop(normal);
    // All that it needs at the start, and not all that it needs to work.
    let found = (needed - 4..needed).rev().find_map(|limit| {
        let mut sidecar = limited(&scene, limit);
        let watch = Stopwatch::start();
        while sidecar.alive() && lacks(&sidecar) == 0 && watch.is_within(Duration::from_secs(2)) {
            pause(50);
        }
        (sidecar.alive() && lacks(&sidecar) > 0).then_some(sidecar)
    });
    let mut sidecar = found.expect("a limit that hurts");
    pause(1000);
    let (start, said) = (Instant::now(), lacks(&sidecar));
    let (sent, cpu) = (requests(&scene).len(), sidecar.cpu_time());
    // Whoever knocks at the endpoint now cannot be let in.
    let knocking = TcpStream::connect(("127.0.0.1", sidecar.port));
    pause(2000);
    drop(knocking);
    let cpu = sidecar.cpu_time() - cpu;
    assert!(cpu < Duration::from_millis(500), "{cpu:?} of work in 2 s\n{}", sidecar.log());
    let most = 20.0 * start.elapsed().as_secs_f64();
    let (sent, said) = (requests(&scene).len() - sent, lacks(&sidecar) - said);
    assert!((sent as f64) < most && (said as f64) < most, "{}", sidecar.log());
    let pid = sidecar.pid().to_string();
    let raised = Command::new("prlimit").args(["--pid", &pid, "--nofile=64:64"]).status();
    if raised.is_ok_and(|status| status.success()) {
        wait_for_renewal(&scene);
    }
    sidecar.ends_at_once();
}

#[test]
fn f28_a_start_without_descriptors_is_a_sentence_or_a_wait() {
    let scene = Scene::new("none");
    // Room for stdin, stdout, stderr and next to nothing else.
    for descriptors in 3..7 {
        let mut sidecar = limited(&scene, descriptors);
        eventually("it says so", || (!sidecar.log().is_empty()).then_some(()));
        pause(300);
        if sidecar.alive() {
            assert!(lacks(&sidecar) > 0, "{descriptors}: {}", sidecar.log());
            sidecar.signal("TERM");
            assert_eq!(sidecar.wait().code(), Some(0), "{descriptors}: {}", sidecar.log());
        } else {
            assert_ne!(sidecar.wait().code(), Some(0), "{descriptors}: {}", sidecar.log());
        }
        assert!(!sidecar.log().contains("panicked"), "{descriptors}: {}", sidecar.log());
    }
}
