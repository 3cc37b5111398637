//! Memory budgets for documents of peers, charged while they are built: none costs more than its budget,
//! whatever its shape.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    error, fmt,
    sync::{Condvar, Mutex, PoisonError},
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
    bytes: Cell<usize>,
    since: Cell<Option<Instant>>,
    slot: RefCell<Option<Slot>>,
}

/// The reason not to read a document any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Other large documents took all of the time.
    Busy,
    /// It arrived too slowly.
    Slow,
    /// More bytes than any object has.
    Endless,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "other large answers are being read",
            Self::Slow => "it arrives too slowly",
            Self::Endless => "more than 4 MiB",
        })
    }
}

impl error::Error for Refusal {}

impl Budget {
    /// The budget for documents that may cost `limit` bytes each.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            peer: None,
            slots: &SLOTS,
            used: Cell::new(0),
            bytes: Cell::new(0),
            since: Cell::new(None),
            slot: RefCell::new(None),
        }
    }

    /// The budget for documents from a peer: the large ones of the whole process take turns.
    pub fn for_peer(limit: usize, peer: usize) -> Self {
        Self { peer: Some(peer), ..Self::new(limit) }
    }

    /// Begins the next document.
    pub fn reset(&self) {
        self.used.set(0);
        self.bytes.set(0);
        self.since.set(None);
        self.slot.replace(None);
    }

    /// The cost of the document so far.
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

    /// Charges a text.
    pub fn charge_text(&self, length: usize) -> bool {
        self.charge(text_cost(length))
    }

    /// Charges the next entry of a map that has `entries`.
    pub fn charge_entry(&self, entries: usize) -> bool {
        self.charge(entry_cost(entries))
    }

    /// Counts bytes of the document as they arrive.
    pub fn read(&self, bytes: usize) -> Result<(), Refusal> {
        let now = Instant::now();
        let since = self.since.get().unwrap_or(now);
        self.since.set(Some(since));
        self.bytes.set(self.bytes.get() + bytes);
        if self.bytes.get() > MAX_BYTES {
            return Err(Refusal::Endless);
        }
        let Some(peer) = self.peer else { return Ok(()) };
        let (time, mut slot) = (now.saturating_duration_since(since), self.slot.borrow_mut());
        let crowded = slot.is_some() && lock(&self.slots.queue).is_crowded();
        if time > READ_TIMEOUT || crowded && is_too_slow(time, self.bytes.get()) {
            return Err(Refusal::Slow);
        }
        let is_large = self.bytes.get().max(self.used.get()) > SMALL;
        if is_large && slot.is_none() {
            *slot = Some(self.slots.acquire(peer, SLOT_TIMEOUT).ok_or(Refusal::Busy)?);
            // Not the peer took this time.
            self.since.set(Some(Instant::now()));
        }
        Ok(())
    }
}

/// Ends the waits for the documents of a peer, whose client is closed.
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
    queue: Mutex<SlotQueue>,
    changed: Condvar,
}

#[derive(Debug)]
struct SlotQueue {
    /// The peers that have a place.
    holders: Vec<usize>,
    /// Tickets with their peers.
    waiting: VecDeque<(u64, usize)>,
    tickets: u64,
}

/// A place, until it is dropped.
#[derive(Debug)]
struct Slot {
    slots: &'static Slots,
    peer: usize,
}

impl Slots {
    const fn new() -> Self {
        let queue = SlotQueue { holders: Vec::new(), waiting: VecDeque::new(), tickets: 0 };
        Self { queue: Mutex::new(queue), changed: Condvar::new() }
    }

    fn acquire(&'static self, peer: usize, timeout: Duration) -> Option<Slot> {
        let mut queue = lock(&self.queue);
        queue.tickets += 1;
        let ticket = queue.tickets;
        queue.waiting.push_back((ticket, peer));
        let mut enters = false;
        let waits = |queue: &mut SlotQueue| {
            enters = queue.enters(ticket);
            !enters && queue.has(ticket)
        };
        let (mut queue, _) = self
            .changed
            .wait_timeout_while(queue, timeout, waits)
            .unwrap_or_else(PoisonError::into_inner);
        queue.waiting.retain(|(waiting, _)| *waiting != ticket);
        // Whoever was behind it may be the next.
        self.changed.notify_all();
        enters.then(|| Slot { slots: self, peer })
    }

    fn end_waits(&self, peer: usize) {
        lock(&self.queue).waiting.retain(|(_, waiting)| *waiting != peer);
        self.changed.notify_all();
    }
}

impl SlotQueue {
    /// The first ticket whose peer has no place.
    fn first(&self) -> Option<usize> {
        self.waiting.iter().position(|(_, peer)| !self.holders.contains(peer))
    }

    fn has(&self, ticket: u64) -> bool {
        self.waiting.iter().any(|(waiting, _)| *waiting == ticket)
    }

    /// Whether a peer without a place waits for one. A peer that waits for its own place does not count.
    fn is_crowded(&self) -> bool {
        self.first().is_some()
    }

    /// Gives a place to the holder of a ticket, if it is the first one whose peer has none.
    fn enters(&mut self, ticket: u64) -> bool {
        let Some(first) = self.first().filter(|_| self.holders.len() < MAX_LARGE) else {
            return false;
        };
        let (next, peer) = self.waiting[first];
        if next == ticket {
            self.waiting.remove(first);
            self.holders.push(peer);
        }
        next == ticket
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut queue = lock(&self.slots.queue);
        if let Some(place) = queue.holders.iter().position(|peer| *peer == self.peer) {
            queue.holders.swap_remove(place);
        }
        drop(queue);
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
        assert!(budget.charge_entry(0) && budget.charge_entry(1) && budget.charge_text(0));
        assert_eq!(budget.used(), FIRST_ENTRY);
        assert!(budget.charge_text(400) && budget.charge_entry(NODE));
        assert!(!budget.charge(1000) && budget.is_exceeded());
        budget.reset();
        assert!(!budget.is_exceeded() && budget.used() == 0);
    }

    #[test]
    fn no_document_is_endless() {
        let budget = Budget::new(usize::MAX);
        assert_eq!(budget.read(MAX_BYTES), Ok(()));
        assert_eq!(budget.read(1), Err(Refusal::Endless));
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
        assert_eq!(small.read(SMALL), Ok(()));
        assert!(small.slot.borrow().is_none());
        assert_eq!(small.read(1), Ok(()), "it has grown, and there is room");
        assert!(small.slot.borrow().is_some());
        small.reset();
        assert!(small.slot.borrow().is_none());
    }

    /// Two documents of 300 KiB each from a link of 64 KiB/s, of which 200 KiB of the first one have arrived.
    #[test]
    fn slow_object_is_let_go_of_for_another_peer_alone() {
        static SLOTS: Slots = Slots::new();
        let (first_bytes, rest) = (200 << 10, 100 << 10);
        let of_peer = |peer| Budget { slots: &SLOTS, ..Budget::for_peer(usize::MAX, peer) };
        let waits = |number| {
            while lock(&SLOTS.queue).waiting.len() < number {
                thread::yield_now();
            }
        };
        let first = of_peer(1);
        assert_eq!(first.read(first_bytes), Ok(()));
        first.since.set(Instant::now().checked_sub(Duration::from_secs(3)));
        thread::scope(|scope| {
            let second = scope.spawn(|| of_peer(1).read(first_bytes + rest));
            waits(1);
            assert_eq!(first.read(rest), Ok(()), "its own second object waits");
            let other = of_peer(2);
            assert_eq!(other.read(first_bytes), Ok(()));
            let third = scope.spawn(|| of_peer(3).read(first_bytes));
            waits(2);
            assert_eq!(first.read(0), Err(Refusal::Slow), "a third peer waits");
            first.reset();
            assert_eq!((second.join().unwrap(), third.join().unwrap()), (Ok(()), Ok(())));
        });
    }

    #[test]
    fn closed_client_waits_for_no_place() {
        static SLOTS: Slots = Slots::new();
        let started = Instant::now();
        let _slots = [1, 2].map(|peer| SLOTS.acquire(peer, READ_TIMEOUT).unwrap());
        thread::scope(|scope| {
            let closed = scope.spawn(|| SLOTS.acquire(3, READ_TIMEOUT).is_some());
            while lock(&SLOTS.queue).waiting.is_empty() {
                thread::yield_now();
            }
            SLOTS.end_waits(4);
            assert!(SLOTS.queue.lock().unwrap().is_crowded(), "another client waits on");
            SLOTS.end_waits(3);
            assert!(!closed.join().unwrap());
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
