//! The time that a process takes to exit, on a busy machine as on a quiet one.

use std::{
    collections::HashMap,
    fs,
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use crate::{PATIENCE, pause};

/// Waits for the end of a process that was just told to end; how long it was seen to go on, less what it waited
/// for a processor.
#[track_caller]
pub fn ending(child: &mut Child) -> (ExitStatus, Duration) {
    let start = Instant::now();
    let (mut waits, mut time) = (Waits::of(child.id()), Duration::ZERO);
    loop {
        let passed = start.elapsed();
        waits.add_up();
        if let Some(status) = child.try_wait().expect("its state") {
            return (status, time);
        }
        time = passed.saturating_sub(waits.sum());
        assert!(time < Duration::from_secs(PATIENCE), "in vain for {passed:?}: the process ends");
        pause(5);
    }
}

/// How long the threads of a process and its children wait for a processor.
struct Waits {
    process: u32,
    /// By the thread's directory: at the beginning, and now.
    threads: HashMap<String, (u64, u64)>,
}

impl Waits {
    fn of(process: u32) -> Self {
        let mut waits = Self { process, threads: HashMap::new() };
        waits.add_up();
        waits.threads.values_mut().for_each(|(first, now)| *first = *now);
        waits
    }

    fn add_up(&mut self) {
        self.add_process(self.process);
    }

    fn add_process(&mut self, process: u32) {
        let tasks = fs::read_dir(format!("/proc/{process}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let task = task.path().display().to_string();
            let children = fs::read_to_string(format!("{task}/children")).unwrap_or_default();
            self.add(task);
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            children.for_each(|child| self.add_process(child));
        }
    }

    /// The second number of schedstat are nanoseconds on a run queue (Linux'
    /// `Documentation/scheduler/sched-stats.rst`).
    fn add(&mut self, task: String) {
        let stat = fs::read_to_string(format!("{task}/schedstat")).unwrap_or_default();
        if let Some(now) = stat.split(' ').nth(1).and_then(|now| now.parse().ok()) {
            self.threads.entry(task).or_default().1 = now;
        }
    }

    fn sum(&self) -> Duration {
        Duration::from_nanos(self.threads.values().map(|(first, now)| now - first).sum())
    }
}
