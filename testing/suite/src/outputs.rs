//! What the programs print, kept in files of the directory `OUTPUTS` where `make e2e` names one; tests/outputs.rs
//! searches them for keys and tokens.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::Write,
    iter::once,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    process::{Command, Output, Stdio, id},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
};

pub const PROGRAMS: [&str; 4] =
    ["addon-lease-controller", "csr-bootstrapper", "hub-kubeconfig-dumper", "remote-sync"];

/// The files of one process, by what is in them; none without `OUTPUTS`, and none of programs that are not ours.
#[derive(Clone, Debug)]
pub struct Kept(Option<String>);

impl Kept {
    /// Begins with the command line.
    pub fn of(command: &Command) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let kept = Self(env::var("OUTPUTS").ok().and_then(|directory| {
            let name = ours(command)?;
            Some(format!("{directory}/{name}.{}.{}", id(), NEXT.fetch_add(1, SeqCst)))
        }));
        let words = once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        kept.add("argv", &words.join("\n"));
        kept
    }

    /// Adds to one of its files, or makes it.
    pub fn add(&self, part: &str, text: &str) {
        if let Some(mut file) = self.file(part) {
            file.write_all(format!("{text}\n").as_bytes()).expect("the directory of OUTPUTS");
        }
    }

    fn file(&self, part: &str) -> Option<File> {
        let path = format!("{}.{part}", self.0.as_ref()?);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        Some(file.expect("the directory of OUTPUTS"))
    }

    pub fn is_wanted(&self) -> bool {
        self.0.is_some()
    }
}

/// Runs a command to its end, as [`Command::output`] does.
pub fn run(command: &mut Command) -> Output {
    let kept = Kept::of(command);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    for (part, bytes) in [("out", &output.stdout), ("log", &output.stderr)] {
        kept.add(part, &String::from_utf8_lossy(bytes));
    }
    output
}

/// Which program of ours this runs, be it by another name or behind another program; None if it is one of those that
/// come with the real control plane.
fn ours(command: &Command) -> Option<&'static str> {
    let values = command.get_envs().filter_map(|(_, value)| value);
    let words = once(command.get_program()).chain(command.get_args()).chain(values);
    let files: Vec<_> = words.filter_map(|word| fs::canonicalize(word).ok()).collect();
    let name_of = |file: &PathBuf| {
        let is_it = |name: &&&str| file.is_file() && file.file_name() == Some(OsStr::new(name));
        PROGRAMS.iter().find(is_it).copied()
    };
    let ours = files.iter().find_map(name_of);
    let assets = env::var_os("E2E_ASSETS").and_then(|assets| fs::canonicalize(assets).ok());
    let is_foreign = assets.is_some_and(|assets| files.iter().any(|it| it.starts_with(&assets)));
    assert!(ours.is_some() || is_foreign, "whose output is that of {command:?}?");
    ours
}
