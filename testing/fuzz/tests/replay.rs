//! Each target on its seeds, without libFuzzer, which needs a C++ compiler.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

fn directory(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of)
}

/// The names in a directory that end with `end`, without that ending.
fn names(directory: &Path, end: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(end)?.into())).collect();
    names.sort();
    names
}

/// Runs a target on its seeds; returns the failure, if any.
fn replay(target: &str) -> Option<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_pem")).with_file_name(target);
    let run = Command::new(program).arg(directory("seeds").join(target)).output();
    let run = run.expect("a target is a program");
    // The last line of stdout names the input that failed.
    let output =
        [String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr)].concat();
    (!run.status.success()).then(|| format!("{target}: {}\n{output}", run.status))
}

#[test]
fn every_target_passes_on_its_seeds() {
    let targets = names(&directory("src/bin"), ".rs");
    assert!(targets.len() >= 6, "{targets:?}");
    // Two targets at a time; they measure processor time.
    let half = targets.len().div_ceil(2);
    let bad: Vec<_> = thread::scope(|scope| {
        let halves = targets.chunks(half).map(|half| {
            scope.spawn(|| half.iter().filter_map(|name| replay(name)).collect::<Vec<_>>())
        });
        let halves: Vec<_> = halves.collect();
        halves.into_iter().flat_map(|half| half.join().expect("a half")).collect()
    });
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn seeds_are_small_and_belong_to_a_target() {
    let targets = names(&directory("src/bin"), ".rs");
    let mut all = 0;
    for target in &targets {
        let seeds = directory("seeds").join(target);
        for seed in names(&seeds, "") {
            let length = fs::metadata(seeds.join(&seed)).expect("a seed").len();
            assert!(length <= 8192, "{target}/{seed}: libFuzzer would cut {length} bytes");
            all += length;
        }
    }
    assert!(all < 100_000, "{all} bytes of seeds");
    for dictionary in names(&directory("seeds"), ".dict") {
        assert!(targets.contains(&dictionary), "{dictionary}.dict is for no target");
    }
}
