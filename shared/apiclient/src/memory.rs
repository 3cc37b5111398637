//! Memory budgets for documents from peers, charged while they are parsed: whatever its shape, no document exceeds its
//! budget.

use std::{
    cell::{Cell, RefCell},
    io::{Error, ErrorKind, Result},
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::lock::lock;

/// The size of a `serde_json::Value`.
pub const VALUE: usize = 32;
/// The capacity of a `BTreeMap` node, in entries.
const NODE: usize = 11;
/// The cost of a first entry: a node with room for [`NODE`] entries of 56 bytes.
const FIRST_ENTRY: usize = 672;
/// The cost of an entry beyond the first node: nodes are half empty at worst, and one in seven is internal.
const FURTHER_ENTRY: usize = 160;
/// The smallest allocation.
const ALLOCATION: usize = 16;

/// The cost of a text of `length` bytes; the allocator rounds it up.
pub const fn text_cost(length: usize) -> usize {
    if length == 0 { 0 } else { ALLOCATION + length + length / 4 }
}

/// The cost of another entry in a map of `entries`.
pub const fn entry_cost(entries: usize) -> usize {
    match entries {
        0 => FIRST_ENTRY,
        1..NODE => 0,
        _ => FURTHER_ENTRY,
    }
}

/// The time limit for a document: enough for 3 MiB at 1.3 Mbit/s.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// The size limit of an object: kube-apiserver accepts requests of up to 3 MiB (apiserver `pkg/server/config.go`,
/// MaxRequestBodyBytes), and adds some fields.
const MAX_BYTES: usize = 4 << 20;

/// Documents up to this size never wait.
const SMALL: usize = 64 << 10;
/// How many larger documents the process parses at a time.
const MAX_LARGE: usize = 2;
/// While others wait, a document must arrive at [`MIN_RATE`] after this time.
const GRACE_TIMEOUT: Duration = Duration::from_secs(2);
/// In bytes per second.
const MIN_RATE: u64 = 128 << 10;

/// The large documents of the process: how many are being parsed, and how many wait.
static LARGE: (Mutex<(usize, usize)>, Condvar) = (Mutex::new((0, 0)), Condvar::new());

/// The permit to parse a large document, until it is dropped.
#[derive(Debug)]
struct Place;

impl Place {
    /// Waits for a permit; `None` after [`READ_TIMEOUT`].
    fn take() -> Option<Self> {
        let (large, freed) = &LARGE;
        let mut large = lock(large);
        large.1 += 1;
        let waited =
            freed.wait_timeout_while(large, READ_TIMEOUT, |(built, _)| *built >= MAX_LARGE);
        let (mut large, _) = waited.unwrap_or_else(PoisonError::into_inner);
        large.1 -= 1;
        let is_free = large.0 < MAX_LARGE;
        large.0 += usize::from(is_free);
        is_free.then_some(Self)
    }

    fn is_awaited() -> bool {
        lock(&LARGE.0).1 > 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&LARGE.0).0 -= 1;
        LARGE.1.notify_one();
    }
}

/// The memory budget of a document, shared by its reader and its parser.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    pub(crate) used: Cell<usize>,
    bytes: Cell<usize>,
    /// When the first byte of the document arrived.
    since: Cell<Option<Instant>>,
    place: RefCell<Option<Place>>,
}

impl Budget {
    /// A budget of `limit` bytes for each document.
    pub fn new(limit: usize) -> Self {
        let (used, bytes) = (Cell::new(0), Cell::new(0));
        Self { limit, used, bytes, since: Cell::new(None), place: RefCell::default() }
    }

    pub fn reset(&self) {
        self.used.set(0);
        self.bytes.set(0);
        self.since.set(None);
        self.place.take();
    }

    /// Returns whether the document exceeds its limit.
    pub fn is_exceeded(&self) -> bool {
        self.used.get() > self.limit
    }

    /// Charges `bytes`; returns `false` if they must not be allocated.
    pub fn charge(&self, bytes: usize) -> bool {
        self.used.set(self.used.get().saturating_add(bytes));
        !self.is_exceeded()
    }

    /// Counts bytes as they arrive. The error is `FileTooLarge` beyond 4 MiB, and `TimedOut` for a document
    /// that arrives too slowly.
    pub fn read(&self, bytes: usize) -> Result<()> {
        self.bytes.set(self.bytes.get() + bytes);
        if self.bytes.get() > MAX_BYTES {
            return Err(Error::new(ErrorKind::FileTooLarge, "more than 4 MiB"));
        }
        let since = self.since.get().unwrap_or_else(Instant::now);
        self.since.set(Some(since));
        let (time, place) = (since.elapsed(), self.place.take());
        let is_slow = time > GRACE_TIMEOUT && (self.bytes.get() as u64) < MIN_RATE * time.as_secs();
        if time > READ_TIMEOUT || is_slow && place.is_some() && Place::is_awaited() {
            return Err(Error::new(ErrorKind::TimedOut, "it arrives too slowly"));
        }
        let is_large = self.bytes.get().max(self.used.get()) > SMALL;
        self.place.replace(match place {
            None if is_large => {
                let busy = || Error::new(ErrorKind::TimedOut, "other large answers are being read");
                let place = Place::take().ok_or_else(busy)?;
                // The peer is not to blame for the wait.
                self.since.set(Some(Instant::now()));
                Some(place)
            }
            place => place,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_charged_by_node_and_texts_by_length() {
        let budget = Budget::new(2000);
        assert!(
            [entry_cost(0), entry_cost(1), text_cost(0)].iter().all(|cost| budget.charge(*cost))
        );
        assert_eq!(budget.used.get(), FIRST_ENTRY);
        assert!(budget.charge(text_cost(400) + entry_cost(NODE)));
        assert!(!budget.charge(1000) && budget.is_exceeded());
        budget.reset();
        assert!(!budget.is_exceeded() && budget.used.get() == 0);
    }

    #[test]
    fn slow_document_gives_way_to_those_that_wait() {
        let budget = Budget::new(usize::MAX);
        assert!(budget.read(SMALL + 1).is_ok());
        budget.since.set(Instant::now().checked_sub(GRACE_TIMEOUT * 2));
        assert!(budget.read(1).is_ok(), "nobody waits");
        lock(&LARGE.0).1 += 1;
        let slow = budget.read(1).unwrap_err();
        lock(&LARGE.0).1 -= 1;
        assert_eq!(slow.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn document_is_bounded_in_size_and_time() {
        let budget = Budget::new(usize::MAX);
        assert!(budget.read(MAX_BYTES).is_ok());
        assert!(budget.place.take().is_some(), "it is large");
        assert_eq!(budget.read(1).unwrap_err().kind(), ErrorKind::FileTooLarge);
        budget.reset();
        budget.since.set(Instant::now().checked_sub(READ_TIMEOUT * 2));
        assert_eq!(budget.read(1).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
