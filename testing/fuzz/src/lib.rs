//! What the targets have in common: memory and time as promises, inputs that are longer than they look, and
//! what a sentence may hold.
//!
//! Each target is a program: of libFuzzer with `--cfg fuzzing`, as `make fuzz` builds it, and else one that
//! runs the target on the files that it is given, as `make test` does with the seeds.

mod bounds;
mod input;
mod served;

use std::{env, fs, panic, path::Path, process};

pub use self::{
    bounds::{bounded, charged, of_kubeconfig},
    input::{HUGE, expanded, parts, pem},
    served::{Request, answer, asked, bare, chunked},
};

/// A pair that belongs together, made for nothing else.
pub const CERTIFICATE: &[u8] = include_bytes!("../seeds/tls.crt");
/// Its key.
pub const KEY: &[u8] = include_bytes!("../seeds/tls.key");
/// A request of csr-bootstrapper for the same key, as agent1 of cluster1.
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

/// Modules of a program at the root of a target, where they look for each other; what a target has no use for
/// is the program's.
#[macro_export]
macro_rules! modules {
    ($($name:ident = $file:literal,)+) => {
        $(#[allow(dead_code)]
        #[path = $file]
        mod $name;)+
    };
}

/// Runs a target on the files on the command line, and on those in the directories there.
pub fn replay(run: impl Fn(&[u8])) {
    // Of whatever thread.
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        told(what);
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
            // The last one is what a panic is about.
            println!("{}", file.display());
            run(&data);
            count += 1;
        }
    }
    println!("{count} inputs");
}

/// What goes into the log: one line, bounded.
pub fn sentence(text: &str, longest: usize) {
    assert!(!text.contains(|c: char| c.is_control()), "not one line: {text:?}");
    assert!(text.len() <= longest, "{} bytes: {text:?}", text.len());
}
