//! Order, delays, parking and workers.

use super::*;
use crate::cache::retry::RetryClass;

fn pair(name: &str) -> Pair {
    Pair { kind: KindIndex::FIRST, key: name.into() }
}

fn item(name: &str) -> WorkItem {
    WorkItem { pair: pair(name), since: Instant::now(), urgent: true, large: false }
}

fn failed(class: RetryClass) -> ReconcileResult {
    ReconcileResult::Failed(class, Duration::ZERO)
}

fn taken(queue: &Workqueue) -> Option<Pair> {
    queue.get().map(|item| item.pair)
}

fn queue() -> Workqueue {
    let queue = Workqueue::new(&PerKind::from(vec![(), ()]), 2);
    queue.open(KindIndex::FIRST, true);
    queue
}

#[test]
fn a_pair_is_in_it_once_and_again_if_it_changes_under_way() {
    let queue = queue();
    queue.add(pair("a"), false);
    queue.add(pair("a"), true);
    assert_eq!(taken(&queue), Some(pair("a")));
    assert_eq!(queue.depth(), QueueDepth { running: 1, ..QueueDepth::default() });
    queue.add(pair("a"), true);
    queue.add(pair("a"), true);
    queue.done(&item("a"), ReconcileResult::Done);
    assert_eq!(taken(&queue), Some(pair("a")));
    queue.done(&item("a"), ReconcileResult::Done);
    assert_eq!(queue.depth(), QueueDepth::default());
}

#[test]
fn events_come_before_what_a_list_brought() {
    let queue = queue();
    ["a", "b"].iter().for_each(|name| queue.add(pair(name), false));
    queue.add(pair("c"), true);
    assert_eq!([(); 3].map(|()| taken(&queue)), ["c", "a", "b"].map(|name| Some(pair(name))));
}

#[test]
fn delayed_work_comes_in_time_and_with_listed_work() {
    let start = Instant::now();
    let later = |seconds| start + Duration::from_secs(seconds);
    let mut order = order();
    order.add(pair("a"), false, start);
    let first = order.get(start).unwrap();
    order.done(&first, ReconcileResult::RequeueAfter(Duration::from_secs(10)), 1.0, start);
    assert_eq!((order.next_delayed(), order.waiting()), (Some(later(10)), 0));
    assert_eq!(order.get(later(9)), None);
    order.add(pair("b"), false, later(9));
    order.add(pair("c"), false, later(9));
    let at = |order: &mut QueueOrder, seconds| order.get(later(seconds)).map(|item| item.pair);
    assert_eq!(at(&mut order, 10), Some(pair("b")));
    assert_eq!((order.next_delayed(), order.waiting()), (None, 2));
    assert_eq!([(); 3].map(|()| at(&mut order, 10)), [Some(pair("c")), Some(pair("a")), None]);
}

/// Who is changed again and again has one turn at a time.
#[test]
fn each_of_many_that_change_all_the_time_has_its_turn() {
    let queue = queue();
    ["a", "b", "c"].iter().for_each(|name| queue.add(pair(name), true));
    let mut turns = Vec::new();
    for _ in 0..9 {
        let item = queue.get().unwrap();
        // It changes under way, as the others do that wait.
        ["a", "b", "c"].iter().for_each(|name| queue.add(pair(name), true));
        turns.push(item.pair.key.to_string());
        queue.done(&item, ReconcileResult::Done);
    }
    assert_eq!(turns.concat(), "abcabcabc");
}

#[test]
fn what_cannot_be_worked_on_is_parked_and_comes_back_at_once() {
    let queue = queue();
    let closed = Pair { kind: KindIndex::SECOND, key: "x".into() };
    queue.add(closed.clone(), true);
    queue.add(pair("a"), true);
    assert_eq!(taken(&queue), Some(pair("a")));
    assert_eq!(queue.depth().parked, 1);
    queue.add(closed.clone(), true);
    queue.done(&item("a"), failed(RetryClass::Refused));
    queue.open(KindIndex::SECOND, true);
    assert_eq!(taken(&queue), Some(closed));
    queue.open(KindIndex::FIRST, false);
    queue.open(KindIndex::FIRST, true);
    assert_eq!(taken(&queue), Some(pair("a")), "its failure was of before");
}

#[test]
fn a_failure_waits_and_an_event_does_not() {
    let queue = queue();
    queue.add(pair("a"), true);
    queue.get();
    queue.done(&item("a"), failed(RetryClass::Stale));
    assert_eq!(taken(&queue), Some(pair("a")), "at once, the first time");
    queue.done(&item("a"), failed(RetryClass::Stale));
    assert_eq!(taken(&queue), Some(pair("a")), "after 5 ms");
    queue.done(&item("a"), failed(RetryClass::Refused));
    assert_eq!(queue.depth(), QueueDepth { failing: 1, ..QueueDepth::default() });
    queue.add(pair("a"), true);
    assert_eq!(taken(&queue), Some(pair("a")));
    queue.done(&item("a"), ReconcileResult::RequeueAfter(Duration::from_millis(1)));
    assert_eq!(taken(&queue), Some(pair("a")));
}

#[test]
fn a_pair_that_fails_at_each_event_takes_the_room_of_one() {
    let queue = queue();
    for _ in 0..100 {
        queue.add(pair("a"), true);
        queue.get();
        queue.done(&item("a"), failed(RetryClass::Refused));
    }
    assert_eq!(queue.state().order.delayed().len(), 1);
    queue.open(KindIndex::FIRST, false);
    queue.open(KindIndex::FIRST, true);
    assert!(queue.state().order.delayed().is_empty());
    assert_eq!(taken(&queue), Some(pair("a")));
}

#[test]
fn a_worker_waits_for_delayed_work_and_wakes_for_other() {
    let queue = queue();
    queue.add(pair("a"), true);
    assert!(queue.wants_worker());
    queue.get();
    queue.done(&item("a"), ReconcileResult::RequeueAfter(Duration::MAX));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| taken(&queue));
        while queue.state().idle == 0 {
            std::thread::yield_now();
        }
        queue.add(pair("b"), true);
        assert!(!queue.wants_worker(), "there is one who waits");
        assert_eq!(waiter.join().unwrap(), Some(pair("b")));
    });
}

#[test]
fn workers_begin_as_they_are_needed_and_end_when_it_closes() {
    let queue = queue();
    assert!(!queue.wants_worker());
    ["a", "b", "c"].iter().for_each(|name| queue.add(pair(name), true));
    assert!(queue.wants_worker() && queue.wants_worker() && !queue.wants_worker());
    queue.close();
    assert_eq!(taken(&queue), None);
}

#[test]
fn of_large_pairs_one_at_a_time_is_taken() {
    let queue = queue();
    ["a", "b", "c"].iter().for_each(|name| queue.add(pair(name), true));
    let hurried = [(); 2].map(|()| queue.get().unwrap());
    assert!(hurried.iter().all(|item| !item.large));
    hurried.iter().for_each(|item| queue.done(item, ReconcileResult::RequeueAsLarge));
    assert_eq!(queue.depth().queued, 3);
    let large = queue.get().unwrap();
    assert_eq!((&large.pair, large.large), (&pair("a"), true));
    queue.add(pair("b"), true);
    assert_eq!(taken(&queue), Some(pair("c")), "not the next large one");
    queue.done(&item("c"), ReconcileResult::Done);
    queue.add(pair("a"), true);
    queue.done(&large, ReconcileResult::Done);
    let next = queue.get().unwrap();
    assert_eq!((&next.pair, next.large), (&pair("b"), true));
    assert_eq!(taken(&queue), Some(pair("a")), "it changed while it was worked on");
}

#[test]
fn a_server_may_ask_for_more_time_for_one_object() {
    let queue = queue();
    queue.add(pair("a"), true);
    queue.get();
    queue.done(&item("a"), ReconcileResult::Failed(RetryClass::Transient, Duration::from_secs(60)));
    let (at, _) = queue.state().order.delayed().first().cloned().unwrap();
    assert!(at > Instant::now() + Duration::from_secs(50));
}

/// The controller opens queues again and again.
#[test]
fn a_kind_that_is_open_already_cuts_no_delay_short() {
    let queue = queue();
    queue.add(pair("a"), true);
    assert_eq!(taken(&queue), Some(pair("a")));
    queue.done(&item("a"), ReconcileResult::RequeueAfter(Duration::from_secs(3600)));
    queue.open(KindIndex::FIRST, true);
    assert_eq!(queue.depth().queued, 0, "it waits");
    queue.open(KindIndex::FIRST, false);
    queue.open(KindIndex::FIRST, true);
    assert_eq!(queue.depth().queued, 1, "its cluster is back");
}

fn order() -> QueueOrder {
    QueueOrder::new(vec![true].into())
}

#[test]
fn one_large_pair_runs_at_a_time_whatever_ends_meanwhile() {
    let (mut order, now) = (order(), Instant::now());
    assert!(!order.is_running());
    ["a", "b"].iter().for_each(|name| assert!(order.add(pair(name), true, now)));
    order.add(pair("c"), false, now);
    assert_eq!(order.waiting(), 3);
    let [a, b, c] = [(); 3].map(|()| order.get(now).unwrap());
    order.done(&a, ReconcileResult::RequeueAsLarge, 1.0, now);
    order.done(&b, ReconcileResult::RequeueAsLarge, 1.0, now);
    assert_eq!(order.waiting(), 1, "one of the two");
    let a = order.get(now).unwrap();
    order.done(&c, ReconcileResult::Done, 1.0, now);
    assert!(order.is_running() && order.waiting() == 0 && order.get(now).is_none());
    order.done(&a, ReconcileResult::Done, 1.0, now);
    let b = order.get(now).unwrap();
    assert_eq!((b.pair.clone(), b.large), (pair("b"), true));
    order.done(&b, ReconcileResult::Done, 1.0, now);
    assert!(!order.is_running() && order.waiting() == 0);
}

#[test]
fn a_delay_without_end_is_a_day() {
    let (now, work) = (Instant::now(), item("a"));
    let mut order = order();
    order.add(pair("a"), true, now);
    assert_eq!(order.get(now).map(|item| item.pair), Some(pair("a")));
    order.done(&work, ReconcileResult::RequeueAfter(Duration::MAX), 1.0, now);
    assert_eq!(order.next_delayed(), Some(now + Duration::from_secs(86_400)));
}

fn order_of_all(order: &mut QueueOrder, now: Instant) -> String {
    let mut all = String::new();
    while let Some(item) = order.get(now) {
        all += &item.pair.key;
        order.done(&item, ReconcileResult::Done, 1.0, now);
    }
    all
}

#[test]
fn an_edit_of_backlog_comes_first_and_once() {
    let (mut order, now) = (order(), Instant::now());
    ["a", "b", "c", "d"].iter().for_each(|name| assert!(order.add(pair(name), false, now)));
    assert!(!order.add(pair("c"), false, now), "listed again, it stays where it is");
    assert!(!order.add(pair("d"), true, now), "no more to do than before");
    assert_eq!((order.waiting(), order.depth().queued), (4, 4));
    assert_eq!(order_of_all(&mut order, now), "dabc");
    assert_eq!((order.waiting(), order.depth()), (0, QueueDepth::default()));
}

#[test]
fn what_moved_up_may_be_listed_again() {
    let (mut order, now) = (order(), Instant::now());
    let later = now + Duration::from_secs(1);
    ["a", "b", "c"].iter().for_each(|name| assert!(order.add(pair(name), false, now)));
    order.add(pair("a"), true, now);
    let first = order.get(now).unwrap();
    assert!(first.urgent && first.pair == pair("a"));
    order.done(&first, ReconcileResult::Done, 1.0, now);
    order.add(pair("a"), false, later);
    assert_eq!(order.waiting(), 3);
    assert_eq!(order_of_all(&mut order, later), "bca");
}

#[test]
fn a_pair_that_yields_is_the_next_of_the_backlog() {
    let (mut order, now) = (order(), Instant::now());
    ["a", "b"].iter().for_each(|name| assert!(order.add(pair(name), false, now)));
    let a = order.get(now).unwrap();
    order.add(pair("e"), true, now);
    order.done(&a, ReconcileResult::Yielded, 1.0, now);
    assert_eq!(order_of_all(&mut order, now), "eab");
    let queue = queue();
    queue.add(pair("a"), false);
    let a = queue.get().unwrap();
    assert!(!queue.wants_yield());
    queue.add(pair("e"), true);
    assert!(queue.wants_yield() && !queue.wants_yield(), "one worker for one event");
    queue.done(&a, ReconcileResult::Yielded);
    assert_eq!([(); 2].map(|()| taken(&queue)), ["e", "a"].map(|name| Some(pair(name))));
}

#[test]
fn what_was_edited_while_parked_comes_first() {
    let (mut order, now) = (order(), Instant::now());
    order.open(KindIndex::FIRST, false, now);
    ["a", "b", "c"].iter().for_each(|name| assert!(order.add(pair(name), false, now)));
    assert_eq!(order.get(now), None);
    order.add(pair("c"), true, now);
    order.add(pair("c"), false, now);
    assert_eq!(order.depth().parked, 3);
    order.open(KindIndex::FIRST, true, now);
    assert_eq!(order_of_all(&mut order, now), "cab");
}

#[test]
fn what_keeps_failing_is_in_no_hurry() {
    let (mut order, start) = (order(), Instant::now());
    let mut now = start;
    order.add(pair("f"), true, now);
    let mut urgent = Vec::new();
    for _ in 0..5 {
        let item = order.get(now).unwrap();
        urgent.push(item.urgent);
        order.done(&item, failed(RetryClass::Transient), 1.0, now);
        now = order.next_delayed().unwrap();
    }
    assert_eq!(urgent, [true, true, true, true, false]);
}

#[test]
fn those_that_fail_together_do_not_come_back_together() {
    let (mut order, now) = (order(), Instant::now());
    let wait = |order: &mut QueueOrder, spread| {
        order.add(pair("a"), true, now);
        let item = order.get(now).unwrap();
        order.done(&item, failed(RetryClass::Refused), spread, now);
        order.next_delayed().unwrap() - now
    };
    assert_eq!(wait(&mut order, 0.0), Duration::from_secs(15));
    assert_eq!(wait(&mut order, 1.0), Duration::from_secs(60));
}
