//! Memory budgets for documents of peers, charged while they are built: none costs more than its budget,
//! whatever its shape.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    io::{Error, ErrorKind, Result},
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::lock::lock;

/// A `serde_json::Value`.
pub const VALUE: usize = 32;
/// Entries in a node of a `BTreeMap`.
const NODE: usize = 11;
/// A map with one entry: a node with room for [`NODE`] entries of 56 bytes.
const FIRST_ENTRY: usize = 672;
/// An entry beyond the first node: nodes are half empty at worst, and one in seven has nodes below.
const FURTHER_ENTRY: usize = 160;
/// The least that an allocation takes.
const ALLOCATION: usize = 16;

/// The cost of a text of `length` bytes, as the allocator rounds it up.
pub const fn text_cost(length: usize) -> usize {
    if length == 0 { 0 } else { ALLOCATION + length + length / 4 }
}

/// The cost of the next entry of a map that has `entries`.
pub const fn entry_cost(entries: usize) -> usize {
    match entries {
        0 => FIRST_ENTRY,
        1..NODE => 0,
        _ => FURTHER_ENTRY,
    }
}

/// Documents of at most this size never wait.
const SMALL: usize = 64 << 10;
/// This many larger ones are read at a time, in the whole process.
const MAX_LARGE: usize = 2;
/// The time limit for a document from its first byte to its last: 3 MiB pass in this time at 1.3 Mbit/s.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit for the wait of another one: those before it may take all of theirs.
const SLOT_TIMEOUT: Duration = Duration::from_secs(45);
/// While other peers wait, a document that has had its place for so long must arrive at this many bytes per
/// second.
const GRACE_TIMEOUT: Duration = Duration::from_secs(2);
const MIN_RATE: u64 = 128 << 10;
/// The size limit of an object: kube-apiserver accepts no request above 3 MiB (apiserver
/// `pkg/server/config.go`, MaxRequestBodyBytes), and its answer has some more fields.
const MAX_BYTES: usize = 4 << 20;

static SLOTS: Slots = Slots::new();

/// The memory budget of a document, shared by its reader and its builder.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    /// The peer that the bytes come from, which may stall while memory is held for them.
    peer: Option<usize>,
    slots: &'static Slots,
    used: Cell<usize>,
    progress: RefCell<Progress>,
}

/// What has arrived of a document.
#[derive(Debug, Default)]
struct Progress {
    bytes: usize,
    since: Option<Instant>,
    slot: Option<Slot>,
}

impl Budget {
    /// The budget for documents that may cost `limit` bytes each.
    pub fn new(limit: usize) -> Self {
        let (used, progress) = Default::default();
        Self { limit, peer: None, slots: &SLOTS, used, progress }
    }

    /// The budget for documents from a peer: the large ones of the whole process take turns.
    pub fn for_peer(limit: usize, peer: usize) -> Self {
        Self { peer: Some(peer), ..Self::new(limit) }
    }

    /// Begins the next document.
    pub fn reset(&self) {
        self.used.set(0);
        self.progress.take();
    }

    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.used.get()
    }

    /// Returns whether the document costs more than its limit: nothing more is to be built.
    pub fn is_exceeded(&self) -> bool {
        self.used.get() > self.limit
    }

    /// Charges `bytes`; `false` if they must not be allocated.
    pub fn charge(&self, bytes: usize) -> bool {
        self.used.set(self.used.get().saturating_add(bytes));
        !self.is_exceeded()
    }

    /// Counts bytes of the document as they arrive. An error is `FileTooLarge` for more than any object has, and
    /// `TimedOut` for a document that is too slow, or waits for others for too long.
    pub fn read(&self, bytes: usize) -> Result<()> {
        let mut progress = self.progress.borrow_mut();
        progress.bytes += bytes;
        if progress.bytes > MAX_BYTES {
            return Err(Error::new(ErrorKind::FileTooLarge, "more than 4 MiB"));
        }
        let Some(peer) = self.peer else { return Ok(()) };
        let time = progress.since.get_or_insert_with(Instant::now).elapsed();
        let is_crowded = progress.slot.is_some() && self.slots.are_crowded();
        if time > READ_TIMEOUT || is_crowded && is_too_slow(time, progress.bytes) {
            return Err(Error::new(ErrorKind::TimedOut, "it arrives too slowly"));
        }
        let is_large = progress.bytes.max(self.used.get()) > SMALL;
        if is_large && progress.slot.is_none() {
            let busy = || Error::new(ErrorKind::TimedOut, "other large answers are being read");
            progress.slot = Some(self.slots.acquire(peer, SLOT_TIMEOUT).ok_or_else(busy)?);
            // The time in the line is not the peer's fault.
            progress.since = Some(Instant::now());
        }
        Ok(())
    }
}

/// Ends the waits for the documents of a peer, whose client is closed. A document that is being read keeps its
/// place: its memory is still in use.
pub fn end_waits(peer: usize) {
    SLOTS.end_waits(peer);
}

/// Returns whether a document is too slow for others to wait for it: one that drips must not keep its
/// place.
fn is_too_slow(time: Duration, bytes: usize) -> bool {
    time > GRACE_TIMEOUT && (bytes as u64) < MIN_RATE * time.as_secs()
}

/// Places for large documents, in the order in which they were asked for. A peer has one at most, so that none keeps
/// the others waiting with all of its connections.
#[derive(Debug)]
struct Slots {
    /// The tickets of all documents that are read or wait, with their peers.
    line: Mutex<Vec<(u64, usize)>>,
    changed: Condvar,
}

/// A ticket, until it is dropped.
#[derive(Debug)]
struct Slot {
    slots: &'static Slots,
    ticket: u64,
}

impl Slots {
    const fn new() -> Self {
        Self { line: Mutex::new(Vec::new()), changed: Condvar::new() }
    }

    fn acquire(&'static self, peer: usize, timeout: Duration) -> Option<Slot> {
        static TICKETS: AtomicU64 = AtomicU64::new(0);
        let slot = Slot { slots: self, ticket: TICKETS.fetch_add(1, Relaxed) };
        let mut line = lock(&self.line);
        line.push((slot.ticket, peer));
        let waits = |line: &mut Vec<_>| has_place(line, slot.ticket) == Some(false);
        let waited = self.changed.wait_timeout_while(line, timeout, waits);
        let (line, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let reads = has_place(&line, slot.ticket) == Some(true);
        drop(line);
        reads.then_some(slot)
    }

    fn are_crowded(&self) -> bool {
        peers(&lock(&self.line)).len() > MAX_LARGE
    }

    fn end_waits(&self, peer: usize) {
        let mut line = lock(&self.line);
        let all = line.clone();
        line.retain(|(ticket, of)| *of != peer || has_place(&all, *ticket) == Some(true));
        drop(line);
        self.changed.notify_all();
    }
}

/// The first ticket of a peer has a place if few other peers are before it; `None` once it has left the line.
fn has_place(line: &[(u64, usize)], ticket: u64) -> Option<bool> {
    let index = line.iter().position(|(other, _)| *other == ticket)?;
    let before = peers(&line[..index]);
    Some(before.len() < MAX_LARGE && !before.contains(&line[index].1))
}

fn peers(line: &[(u64, usize)]) -> BTreeSet<usize> {
    line.iter().map(|(_, peer)| *peer).collect()
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.slots.line).retain(|(ticket, _)| *ticket != self.ticket);
        self.slots.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        thread,
    };

    use super::*;

    #[test]
    fn maps_are_charged_by_node_and_texts_by_length() {
        let budget = Budget::new(2000);
        assert!(
            [entry_cost(0), entry_cost(1), text_cost(0)].iter().all(|cost| budget.charge(*cost))
        );
        assert_eq!(budget.used(), FIRST_ENTRY);
        assert!(budget.charge(text_cost(400) + entry_cost(NODE)));
        assert!(!budget.charge(1000) && budget.is_exceeded());
        budget.reset();
        assert!(!budget.is_exceeded() && budget.used() == 0);
    }

    #[test]
    fn no_document_is_endless() {
        let budget = Budget::new(usize::MAX);
        assert!(budget.read(MAX_BYTES).is_ok());
        assert_eq!(budget.read(1).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_document_that_drips_is_let_go_of_when_others_wait() {
        let second = Duration::from_secs(1);
        for (time, bytes, too_slow) in [
            (second, 0, false),
            (second * 3, 512 << 10, false),
            (second * 5, 512 << 10, true),
            (second * 5, 2 << 20, false),
        ] {
            assert_eq!(is_too_slow(time, bytes), too_slow, "{time:?} {bytes}");
        }
    }

    #[test]
    fn large_documents_take_turns_and_small_ones_do_not_wait() {
        static SLOTS: Slots = Slots::new();
        let brief = Duration::from_millis(10);
        let first = SLOTS.acquire(1, brief).unwrap();
        assert!(SLOTS.acquire(1, brief).is_none(), "a peer has one");
        let second = SLOTS.acquire(2, brief).unwrap();
        assert!(SLOTS.acquire(3, brief).is_none());
        drop(first);
        assert!(SLOTS.acquire(2, brief).is_none() && SLOTS.acquire(3, brief).is_some());
        drop(second);
        let small = Budget::for_peer(usize::MAX, 4);
        assert!(small.read(SMALL).is_ok());
        assert!(small.progress.borrow().slot.is_none());
        assert!(small.read(1).is_ok(), "it has grown, and there is room");
        assert!(small.progress.borrow().slot.is_some());
        small.reset();
        assert!(small.progress.borrow().slot.is_none());
    }

    /// Two documents of 300 KiB each from a link of 64 KiB/s, of which 200 KiB of the first one have arrived.
    #[test]
    fn slow_object_is_let_go_of_for_another_peer_alone() {
        static SLOTS: Slots = Slots::new();
        let (first_bytes, rest) = (200 << 10, 100 << 10);
        let of_peer = |peer| Budget { slots: &SLOTS, ..Budget::for_peer(usize::MAX, peer) };
        let waits = |number| {
            while lock(&SLOTS.line).len() < number {
                thread::yield_now();
            }
        };
        let first = of_peer(1);
        assert!(first.read(first_bytes).is_ok());
        first.progress.borrow_mut().since = Instant::now().checked_sub(Duration::from_secs(3));
        thread::scope(|scope| {
            let second = scope.spawn(|| of_peer(1).read(first_bytes + rest));
            waits(2);
            assert!(first.read(rest).is_ok(), "its own second object waits");
            let other = of_peer(2);
            assert!(other.read(first_bytes).is_ok());
            let third = scope.spawn(|| of_peer(3).read(first_bytes));
            waits(4);
            assert_eq!(
                first.read(0).unwrap_err().to_string(),
                "it arrives too slowly",
                "a third peer waits"
            );
            first.reset();
            assert!(second.join().unwrap().is_ok() && third.join().unwrap().is_ok());
        });
    }

    #[test]
    fn closed_client_waits_for_no_place() {
        static SLOTS: Slots = Slots::new();
        let started = Instant::now();
        let _slots = [1, 2].map(|peer| SLOTS.acquire(peer, READ_TIMEOUT).unwrap());
        thread::scope(|scope| {
            let closed = scope.spawn(|| SLOTS.acquire(3, READ_TIMEOUT).is_some());
            while lock(&SLOTS.line).len() < 3 {
                thread::yield_now();
            }
            SLOTS.end_waits(4);
            assert!(SLOTS.are_crowded(), "another client waits on");
            SLOTS.end_waits(3);
            assert!(!closed.join().unwrap());
            SLOTS.end_waits(1);
            let brief = Duration::from_millis(10);
            assert!(SLOTS.acquire(3, brief).is_none(), "a document that is read keeps its place");
        });
        assert!(started.elapsed() < READ_TIMEOUT);
    }

    /// Each of them begins its next document as soon as it has let go of its place.
    #[test]
    fn two_peers_that_drip_starve_no_third() {
        static SLOTS: Slots = Slots::new();
        static ENDED: AtomicBool = AtomicBool::new(false);
        static TURNS: AtomicUsize = AtomicUsize::new(0);
        const CONNECTIONS: usize = 6;
        let drip = |peer| {
            while !ENDED.load(Relaxed) {
                let _slot = SLOTS.acquire(peer, READ_TIMEOUT);
                TURNS.fetch_add(1, Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        };
        let mut turns = thread::scope(|scope| {
            (0..CONNECTIONS).for_each(|n| drop(scope.spawn(move || drip(n % 2))));
            let waits = (0..20).map(|_| {
                thread::sleep(Duration::from_millis(5));
                let before = TURNS.load(Relaxed);
                let served = SLOTS.acquire(2, READ_TIMEOUT).is_some();
                served.then(|| TURNS.load(Relaxed) - before)
            });
            let turns = waits.collect::<Option<Vec<_>>>();
            ENDED.store(true, Relaxed);
            turns.expect("it is served")
        });
        // A thread may lose some time before it waits.
        turns.sort_unstable();
        assert!(turns[10] <= CONNECTIONS + MAX_LARGE, "{turns:?}");
        // One that starves would see 20,000 turns until its timeout ends.
        assert!(turns[19] <= 1000, "{turns:?}");
    }
}
