//! Faults of the process and its machine: signals, log, disk, descriptors, flags.

use std::{
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use dev_apiserver::Action;
use suite::{
    eventually, pause,
    relay::Way,
    sidecar::{Sidecar, behind, usage_error},
    within,
};

use crate::{
    config,
    stage::{RECOVERY, Stage},
    strike::{each, each_server, ends, tolerates},
};

#[test]
fn sigterm_ends_it_whatever_a_server_does() {
    each_server("term", |stage, place| {
        let relay = || stage.peers().remove(place).relay;
        for way in [Way::Open, Way::Closed, Way::Hole, Way::Silent] {
            let mut process = stage.start();
            stage.settle(&process);
            relay().set(way);
            relay().cut();
            pause(1500);
            ends(&mut process);
            // And from the start.
            let mut process = stage.start();
            process.wait_for_code("/healthz", 200);
            pause(500);
            ends(&mut process);
            relay().set(Way::Open);
        }
    });
}

#[test]
fn sigterm_ends_it_in_the_middle_of_an_answer() {
    each_server("stalled", |stage, place| sigterm_mid_answer(&*stage, place));
}

pub(crate) fn sigterm_mid_answer(stage: &dyn Stage, place: usize) {
    let mut process = stage.start();
    stage.settle(&process);
    let peer = stage.peers().remove(place);
    let stall = peer.add(Action::Stall);
    peer.relay.cut();
    within(RECOVERY, "the answer stalls", || peer.faults().hits(stall) > 0);
    ends(&mut process);
}

#[test]
fn closed_stderr_and_stdout_are_tolerated() {
    tolerates("closed", |command| {
        *command = behind(&["sh", "-c", r#"exec "$0" "$@" -v 5 >&- 2>&-"#], command);
    });
}

/// A pipe that nobody reads holds 64 KiB (pipe(7)): the first line of the log finds it full.
const FULL: &str = r#"
    mkfifo "$PIPE" && exec 3<>"$PIPE" && head -c 65536 /dev/zero >&3 && exec "$0" "$@" -v 5 2>&3
"#;

#[test]
fn blocked_log_reader_is_tolerated() {
    tolerates("full", |command| {
        let pipe = config::of(command).with_file_name("pipe");
        *command = behind(&["sh", "-c", FULL], command);
        command.env("PIPE", pipe);
    });
}

#[test]
fn full_disk_for_the_log_is_tolerated() {
    tolerates("no-space", |command| {
        *command = behind(&["sh", "-c", r#"exec "$0" "$@" -v 5 2>/dev/full"#], command);
    });
}

/// Until it has opened all that it needs to work; where that takes longer, the next limit is tried in vain.
const SETTLED: Duration = Duration::from_secs(4);

/// How often it says that it has too few.
fn lacks(process: &Sidecar) -> usize {
    process.count("Too many open files") + process.count("os error 24")
}

#[test]
fn too_few_descriptors_are_waited_out() {
    each("descriptors", |stage| {
        let normal = stage.start();
        stage.settle(&normal);
        let needed = normal.descriptors();
        drop(normal);
        // All that it needs at the start, and not all that it needs to work.
        let found = (needed - 6..needed).rev().find_map(|limit| {
            let limit = format!("--nofile={limit}:64");
            let mut process =
                stage.start_as(&|command| *command = behind(&["prlimit", &limit], command));
            let start = Instant::now();
            while process.alive() && lacks(&process) == 0 && start.elapsed() < SETTLED {
                pause(50);
            }
            (process.alive() && lacks(&process) > 0).then_some(process)
        });
        let mut process = found.expect("a limit that hurts");
        pause(1000);
        let (start, said, cpu) = (Instant::now(), lacks(&process), process.cpu_time());
        // A client of the endpoint cannot be accepted now.
        let knocking = TcpStream::connect(("127.0.0.1", process.port));
        pause(3000);
        drop(knocking);
        // Processor time, of which a loop without a pause takes all that there is.
        let cpu = process.cpu_time() - cpu;
        assert!(cpu < Duration::from_millis(750), "{cpu:?} of work in 3 s\n{}", process.log());
        let most = 20.0 * start.elapsed().as_secs_f64();
        assert!(((lacks(&process) - said) as f64) < most, "{}", process.log());
        let pid = process.pid().to_string();
        let raised = Command::new("prlimit").args(["--pid", &pid, "--nofile=64:64"]).status();
        if raised.is_ok_and(|status| status.success()) {
            stage.settle(&process);
            stage.lives(&process);
        }
        ends(&mut process);
    });
}

#[test]
fn invalid_flags_are_exit_code_2_with_a_sentence() {
    each("flags", |stage| {
        for (more, part) in [
            (&["-unknown"][..], "-unknown"),
            (&["-logging-format", "xml"], "-logging-format"),
            (&["-metrics-port", "70000"], "-metrics-port"),
            (&["word"], "word"),
        ] {
            let mut command = stage.command(0);
            let name = command.get_program().to_string_lossy().into_owned();
            let name = name.rsplit('/').next().expect("a name");
            let output = command.args(more).stderr(Stdio::piped()).output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{more:?}: {text}");
            let sentence = usage_error(name, &text);
            assert!(sentence.contains(part), "{more:?}: {sentence}");
        }
        // Of a repeated flag the last counts.
        let mut process = stage.start_as(&|command| {
            command.args(["-v", "0", "-v", "2"]);
        });
        eventually("it starts", || process.log().contains("-v=2"));
        stage.settle(&process);
        ends(&mut process);
    });
}
