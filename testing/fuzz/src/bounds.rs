//! Memory and time of a piece of work, and what they may be. libFuzzer itself sees the process only, and that
//! once a second.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// Counts what is in use.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

fn add(bytes: usize) {
    PEAK.fetch_max(NOW.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(at, layout) }
    }

    /// What is large enough to count is moved by its pages and never there twice.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Relaxed);
        add(size);
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What a piece of work on an input of any length may take.
const BASE: Duration = Duration::from_millis(100);
/// The same for a byte: some four times what the slowest seed takes with AddressSanitizer; without it, and not
/// optimised, none takes longer.
const BYTE: Duration = Duration::from_micros(4);

/// The bytes of memory that a text of so many bytes can take, of the budget that its parser has: `{a},` is a
/// map, whose first node has room for eleven entries.
pub fn charged(budget: usize, length: usize) -> usize {
    budget.min(200 * length)
}

/// The same of a kubeconfig: an alias in YAML stands for more than its length.
pub fn of_kubeconfig(text: &[u8]) -> usize {
    const BUDGET: usize = 3 << 20;
    if text.contains(&b'*') { BUDGET } else { charged(BUDGET, text.len()) }
}

/// Runs `work` on `length` bytes. It must not use more than `memory` bytes at a time, nor take more than so
/// many bytes ever may: in processor time of all threads, so that a busy machine is no failure.
pub fn bounded<T>(length: usize, memory: usize, work: impl FnOnce() -> T) -> T {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let (most, begin) = (BASE + BYTE * length, time());
    let result = in_memory(memory, work);
    let taken = time().saturating_sub(begin);
    assert!(taken <= most, "{taken:?}, more than {most:?} for {length} bytes");
    result
}

/// Runs `work`, which must not use more than `limit` bytes at a time.
pub fn in_memory<T>(limit: usize, work: impl FnOnce() -> T) -> T {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    let used = PEAK.load(Relaxed).saturating_sub(before);
    assert!(used <= limit, "{used} bytes in use, more than {limit}");
    result
}

/// Processor time of this process so far.
fn time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
