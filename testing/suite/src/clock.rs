//! A wall clock of one process that is wrong, or jumps. Time namespaces shift the other clocks alone and
//! settimeofday the whole machine's, so the library call is answered by a shim: programs of the debug build
//! load it, static ones cannot.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::PathBuf,
    process::Command,
};

use tempfile::TempDir;

use crate::needs::{Need, needs};

/// Ahead of the true time by the number in the file, in seconds.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *ahead;

__attribute__((constructor)) static void load(void) {
    int file = open(getenv("CLOCK_AHEAD"), O_RDONLY | O_CLOEXEC);
    void *page = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    ahead = page;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, id, time);
    if (!failed && id == CLOCK_REALTIME) time->tv_sec += *ahead;
    return failed;
}
"#;

/// The clock of processes that were given it.
pub struct Clock {
    directory: TempDir,
}

impl Clock {
    /// One that is right as yet. None where the program of `command` is static: the test is left out.
    pub fn of(command: &Command) -> Option<Self> {
        let program = fs::read(command.get_program()).expect("the program");
        let is_dynamic = program.windows(8).any(|bytes| bytes == b"ld-linux");
        if !needs(Need::Found(is_dynamic), "a static program asks no library for the time") {
            return None;
        }
        let clock = Self { directory: TempDir::new().expect("a directory") };
        let source = clock.path("shim.c");
        fs::write(&source, SHIM).expect("the source is written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clock.path("shim.so")).arg(source);
        assert!(compiler.status().is_ok_and(|status| status.success()), "cc compiles the shim");
        clock.set(0);
        Some(clock)
    }

    /// Jumps to so many seconds ahead of the true time.
    pub fn set(&self, seconds: i64) {
        // In place: processes have the file mapped.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(self.path("ahead")).expect("the file");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("the file is written");
    }

    /// Gives the clock to a process that is about to start.
    pub fn give(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.path("shim.so")).env("CLOCK_AHEAD", self.path("ahead"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}
