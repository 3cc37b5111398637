//! Order, delays, parking and workers.

use std::thread;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn queue(keys: &[&'static str]) -> Workqueue<&'static str> {
    let queue = Workqueue::new(2);
    keys.iter().for_each(|key| queue.add(*key, true));
    queue
}

fn order(keys: &[&'static str], urgent: bool) -> Order<&'static str> {
    let mut order = Order::new(8);
    keys.iter().for_each(|key| assert!(order.add(*key, urgent)));
    order
}

fn waiting(order: &Order<&'static str>) -> usize {
    order.available().count()
}

/// Takes the next key and ends its attempt so.
fn end(order: &mut Order<&'static str>, result: ReconcileResult, now: Instant) {
    let item = order.get(now).unwrap();
    order.done(&item, result, now);
}

fn all(order: &mut Order<&'static str>, now: Instant) -> String {
    let mut all = String::new();
    while let Some(item) = order.get(now) {
        all += item.key;
        order.done(&item, ReconcileResult::Done, now);
    }
    all
}

#[test]
fn a_key_is_in_it_once_and_again_if_it_changes_under_way() {
    let queue = queue(&["a", "a"]);
    let item = queue.get().unwrap();
    assert_eq!(queue.depth(), QueueDepth { running: 1, ..QueueDepth::default() });
    ["a", "a"].iter().for_each(|key| queue.add(key, true));
    queue.done(&item, ReconcileResult::Done);
    let item = queue.get().unwrap();
    queue.done(&item, ReconcileResult::Done);
    assert_eq!((queue.depth(), queue.has(&"a")), (QueueDepth::default(), false));
}

#[test]
fn an_edit_of_the_backlog_comes_first_and_once() {
    let now = Instant::now();
    let mut order = order(&["a", "b", "c", "d"], false);
    assert!(!order.add("c", false), "listed again, it stays where it is");
    assert!(order.add("d", true), "an idle worker may take it");
    assert_eq!((waiting(&order), order.depth().queued), (4, 4));
    assert_eq!(all(&mut order, now), "dabc");
    order.add("b", false);
    order.add("a", true);
    assert_eq!((all(&mut order, now), waiting(&order)), ("ab".into(), 0));
}

/// What changes again and again has one turn at a time.
#[test]
fn each_of_many_that_change_all_the_time_has_its_turn() {
    let now = Instant::now();
    let (mut order, mut turns) = (order(&["a", "b", "c"], true), String::new());
    for _ in 0..9 {
        let item = order.get(now).unwrap();
        ["a", "b", "c"].iter().for_each(|key| assert!(!order.add(key, true)));
        turns += item.key;
        order.done(&item, ReconcileResult::Done, now);
    }
    assert_eq!(turns, "abcabcabc");
}

#[test]
fn delayed_work_comes_in_time_and_with_listed_work() {
    let now = Instant::now();
    let mut order = order(&["a"], false);
    end(&mut order, ReconcileResult::RequeueAfter(10 * SECOND), now);
    assert_eq!((order.next_delayed(), waiting(&order)), (Some(now + 10 * SECOND), 0));
    assert_eq!(order.get(now + 9 * SECOND), None);
    order.add("b", false);
    assert_eq!(all(&mut order, now + 10 * SECOND), "ba");
    order.add("a", true);
    end(&mut order, ReconcileResult::RequeueAfter(Duration::MAX), now);
    assert_eq!(order.next_delayed(), Some(now + 86_400 * SECOND), "a delay without end is a day");
}

#[test]
fn a_failure_waits_and_an_event_does_not() {
    let now = Instant::now();
    let (mut order, failed) = (order(&["a"], true), ReconcileResult::Failed(SECOND));
    for failures in 0..100 {
        assert_eq!(order.add("a", true), failures > 0);
        assert_eq!(order.delayed(), 0);
        let item = order.get(now).unwrap();
        assert_eq!(item.failures, failures);
        order.done(&item, failed, now);
        assert_eq!((order.delayed(), order.depth().failing), (1, 1), "the room of one");
    }
    order.add("a", true);
    end(&mut order, ReconcileResult::Done, now);
    assert_eq!(order.depth(), QueueDepth::default());
}

#[test]
fn what_keeps_failing_is_in_no_hurry() {
    for (failures, expected) in [(1, "ab"), (3, "ab"), (4, "ba")] {
        let now = Instant::now();
        let mut order = order(&["a"], true);
        for _ in 0..failures {
            order.add("a", true);
            end(&mut order, ReconcileResult::Failed(SECOND), now);
        }
        order.add("b", false);
        assert_eq!(all(&mut order, now + SECOND), expected);
    }
}

#[test]
fn what_is_parked_or_delayed_is_retried_at_once() {
    let now = Instant::now();
    let mut order = order(&["a", "b", "c", "d"], false);
    end(&mut order, ReconcileResult::Park, now);
    end(&mut order, ReconcileResult::Park, now);
    end(&mut order, ReconcileResult::Failed(SECOND), now);
    let last = order.get(now).unwrap();
    order.add("b", true);
    assert_eq!((order.depth().parked, order.get(now)), (2, None));
    order.retry(|key| *key != "x");
    order.done(&last, ReconcileResult::Park, now);
    assert_eq!(order.depth().failing, 0, "its failure was of before");
    assert_eq!(all(&mut order, now), "dabc");
}

#[test]
fn of_large_work_one_at_a_time_is_taken() {
    let now = Instant::now();
    let mut order = order(&["a", "b", "c"], true);
    let [a, b] = [(); 2].map(|()| order.get(now).unwrap());
    assert!(!a.large && order.running() > 0);
    order.done(&a, ReconcileResult::RequeueAsLarge, now);
    order.done(&b, ReconcileResult::RequeueAsLarge, now);
    assert_eq!((waiting(&order), order.depth().queued), (3, 3));
    let a = order.get(now).unwrap();
    assert_eq!((a.key, a.large), ("a", true));
    order.add("b", true);
    assert_eq!(order.get(now).map(|item| item.key), Some("c"), "not the next large one");
    assert_eq!((waiting(&order), order.get(now)), (0, None));
    order.done(&a, ReconcileResult::Done, now);
    assert!(order.get(now).is_some_and(|b| b.key == "b" && b.large));
}

#[test]
fn workers_begin_as_they_are_needed_and_end_when_it_closes() {
    let queue = queue(&[]);
    assert!(!queue.wants_worker());
    queue.add("a", false);
    assert!(queue.wants_worker() && !queue.wants_worker(), "the one that starts takes it");
    ["b", "c"].iter().for_each(|key| queue.add(key, false));
    assert!(queue.wants_worker() && !queue.wants_worker());
    let backlog = [(); 2].map(|()| queue.get().unwrap().key);
    queue.add("d", true);
    assert!(queue.wants_worker() && !queue.wants_worker(), "an edit does not wait for the backlog");
    assert_eq!((backlog, queue.get().map(|item| item.key)), (["a", "b"], Some("d")));
    assert_eq!(queue.state().order.get(Instant::now()), None, "no third one of the backlog");
    queue.close();
    assert_eq!(queue.get(), None);
}

#[test]
fn closed_queue_drains_once_the_last_attempt_ends() {
    let queue = queue(&["a", "b"]);
    let item = queue.get().unwrap();
    queue.close();
    let soon = Duration::from_millis(30);
    let begun = Instant::now();
    queue.drain(begun + soon);
    assert!(begun.elapsed() >= soon, "the attempt goes on");
    thread::scope(|scope| {
        scope.spawn(|| queue.drain(Instant::now() + Duration::from_secs(60)));
        thread::sleep(soon);
        queue.done(&item, ReconcileResult::Done);
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_worker_waits_for_delayed_work_and_wakes_for_other() {
    let queue = queue(&["a"]);
    assert!(queue.wants_worker());
    let item = queue.get().unwrap();
    queue.done(&item, ReconcileResult::RequeueAfter(Duration::MAX));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| queue.get().map(|item| item.key));
        while queue.state().idle == 0 {
            thread::yield_now();
        }
        queue.add("b", true);
        assert!(!queue.wants_worker(), "there is one who waits");
        assert_eq!(waiter.join().unwrap(), Some("b"));
    });
}
