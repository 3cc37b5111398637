//! Limits for the memory and time of a unit of work. libFuzzer only checks the whole process, once a second.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// Counts the allocated bytes.
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

    /// A large block is moved page by page, and never exists twice.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Relaxed);
        add(size);
        unsafe { System.realloc(at, layout, size) }
    }
}

/// The time limit for work on an input of any length.
const BASE: Duration = Duration::from_millis(100);
/// Additional time per byte: about four times that of the slowest seed under AddressSanitizer. An unoptimized build
/// without it is not slower.
const BYTE: Duration = Duration::from_micros(4);

/// Returns the memory limit for a text of this length, up to its parser's budget. `{a},` is the worst case: a map,
/// whose first node has room for eleven entries.
pub fn memory_bound(budget: usize, length: usize) -> usize {
    budget.min(200 * length)
}

/// Returns the memory limit for a kubeconfig.
pub fn kubeconfig_bound(text: &[u8]) -> usize {
    memory_bound(3 << 20, text.len())
}

/// Runs `work` on `length` bytes. Asserts that it uses at most `memory` bytes, and at most the time for that length.
/// The time is the CPU time of all threads, so that a busy machine causes no failure.
pub fn bounded<T>(length: usize, memory: usize, work: impl FnOnce() -> T) -> T {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let (most, begin) = (BASE + BYTE * length, time());
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    let taken = time().saturating_sub(begin);
    assert!(taken <= most, "{taken:?}, more than {most:?} for {length} bytes");
    let used = PEAK.load(Relaxed).saturating_sub(before);
    assert!(used <= memory, "{used} bytes in use, more than {memory}");
    result
}

/// Returns the CPU time of this process so far.
fn time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
