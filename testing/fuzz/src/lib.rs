//! Shared by the targets: limits for memory and time, inputs that expand beyond their length, a server for the client
//! under test, and a check of log lines.
//!
//! Each target is a program. With `--cfg fuzzing`, as in `make fuzz`, it is a libFuzzer binary. Otherwise it runs the
//! target on given files, as `make test` does with the seeds.

mod bounds;
mod input;
mod served;

use std::{env, fs, panic, path::Path, process};

pub use self::{
    bounds::{bounded, kubeconfig_bound, memory_bound},
    input::{HUGE, expand, parts, pem},
    served::{answer, client_with, close_delimited},
};

/// A certificate for `KEY`; both are only for these tests.
pub const CERTIFICATE: &[u8] = include_bytes!("../seeds/tls.crt");
/// The key of `CERTIFICATE`.
pub const KEY: &[u8] = include_bytes!("../seeds/tls.key");
/// A CSR of csr-bootstrapper for the same key, as agent1 of cluster1.
pub const REQUEST: &[u8] = include_bytes!("../seeds/tls.csr");

/// Makes a program of a function of bytes.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $run(data));
        #[cfg(not(fuzzing))]
        fn main() {
            $crate::replay($run);
        }
    };
}

/// Runs a target on the files, and on all files in the directories, that the command line names.
pub fn replay(run: impl Fn(&[u8])) {
    // A panic in any thread must end the process.
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        default_hook(info);
        process::abort();
    }));
    let mut count = 0;
    for path in env::args_os().skip(1) {
        let path = Path::new(&path);
        let inside = fs::read_dir(path).into_iter().flatten().flatten();
        let mut files: Vec<_> = inside.map(|entry| entry.path()).collect();
        if files.is_empty() {
            files.push(path.to_path_buf());
        }
        for file in files {
            let data = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            // The last printed line names the input of a panic.
            println!("{}", file.display());
            run(&data);
            count += 1;
        }
    }
    println!("{count} inputs");
}

/// Asserts that a log message is one line of bounded length.
pub fn assert_one_line(text: &str, longest: usize) {
    assert!(!text.contains(|c: char| c.is_control()), "not one line: {text:?}");
    assert!(text.len() <= longest, "{} bytes: {text:?}", text.len());
}
