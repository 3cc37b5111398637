//! What the targets have in common: memory as a promise, and what a sentence may hold.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use base64::{Engine, prelude::BASE64_STANDARD};

/// A pair that belongs together, made for nothing else.
pub const CERTIFICATE: &[u8] = include_bytes!("../seeds/tls.crt");
/// Its key.
pub const KEY: &[u8] = include_bytes!("../seeds/tls.key");

/// Counts what is in use. libFuzzer itself sees the process only, and that once a second.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs `work`, which must not use more than `limit` bytes at a time.
pub fn bounded<T>(limit: usize, work: impl FnOnce() -> T) -> T {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    let used = PEAK.load(Relaxed).saturating_sub(before);
    assert!(used <= limit, "{used} bytes in use, more than {limit}");
    result
}

/// What goes into the log: one line, bounded.
pub fn sentence(text: &str, longest: usize) {
    assert!(!text.contains(|c: char| c.is_control()), "not one line: {text:?}");
    assert!(text.len() <= longest, "{} bytes: {text:?}", text.len());
}

/// The parts of an input between NUL bytes; the last one takes the rest.
pub fn parts<const N: usize>(data: &[u8]) -> [Option<&[u8]>; N] {
    let mut parts = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| parts.next())
}

/// DER as PEM: a mutation of base64 hardly ever is a mutation of what it stands for.
pub fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let body = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").into_bytes()
}
