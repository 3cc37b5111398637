//! `make recordings`: runs the demos and draws their output, or with CHECK=1 compares it with the existing pictures.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use suite::repository::root;
use tools::recording::{Line, in_common, lines, svg};

fn main() -> ExitCode {
    for name in ["demo", "demo-sync"] {
        let (picture, path) = (record(name), root().join(format!("docs/img/{name}.svg")));
        if env::var_os("CHECK").is_none() {
            fs::write(&path, picture).expect("the picture is written");
            continue;
        }
        let drawn = fs::read_to_string(&path).expect("the picture");
        let (drawn, seen) = (in_common(&lines(&drawn)), in_common(&lines(&picture)));
        if drawn != seen {
            let other = drawn.iter().zip(&seen).find(|(drawn, seen)| drawn != seen);
            eprintln!("docs/img/{name}.svg is of another demo; run make recordings: {other:?}");
            return ExitCode::FAILURE;
        }
        println!("docs/img/{name}.svg is what make {name} prints.");
    }
    ExitCode::SUCCESS
}

/// Runs a demo from this program's directory; returns its picture.
fn record(name: &str) -> String {
    let command = format!("make {name}");
    println!("{command} …");
    let program = env::current_exe().expect("the path of this program").with_file_name(name);
    let mut child = Command::new(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the demo starts");
    let begin = Instant::now();
    let mut all = vec![Line { at: Duration::ZERO, text: format!("$ {command}") }];
    let output = BufReader::new(child.stdout.take().expect("its stdout"));
    for text in output.lines().map_while(Result::ok) {
        all.push(Line { at: begin.elapsed(), text: text.trim_end().to_owned() });
    }
    let status = child.wait().expect("the demo ends");
    let last = all.last().map(|line| line.text.as_str()).unwrap_or_default();
    assert!(status.success(), "{command}: {last}");
    svg(&command, &all)
}
