//! Bounds on the memory and time of a piece of work. libFuzzer itself only sees the whole process, once a
//! second.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// Counts the bytes in use.
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

    /// A block large enough to matter is moved page by page and never exists twice.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Relaxed);
        add(size);
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Time allowed for a piece of work on an input of any length.
const BASE: Duration = Duration::from_millis(100);
/// Time allowed per byte: about four times that of the slowest seed under AddressSanitizer; an unoptimised
/// build without it is no slower.
const BYTE: Duration = Duration::from_micros(4);

/// The memory that a text of this length can take, up to its parser's budget: `{a},` is a map, whose first
/// node has room for eleven entries.
pub fn memory_bound(budget: usize, length: usize) -> usize {
    budget.min(200 * length)
}

/// The same for a kubeconfig.
pub fn kubeconfig_bound(text: &[u8]) -> usize {
    memory_bound(3 << 20, text.len())
}

/// Runs `work` on `length` bytes. Asserts that it never uses more than `memory` bytes, and no more time than
/// that many bytes allow. The time is the processor time of all threads, so that a busy machine causes no
/// failure.
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

/// The processor time of this process so far.
fn time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
