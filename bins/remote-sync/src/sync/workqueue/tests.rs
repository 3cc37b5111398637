//! Pairs in turn.

use super::*;

fn pair(name: &str) -> Pair {
    Pair { kind: 0, key: name.into() }
}

fn task(name: &str) -> Task {
    Task { pair: pair(name), since: Instant::now(), large: false }
}

fn failed(class: Class) -> Outcome {
    Outcome::Failed(class, Duration::ZERO)
}

fn taken(queue: &Queue) -> Option<Pair> {
    queue.take().map(|task| task.pair)
}

fn queue() -> Queue {
    let queue = Queue::new(2, 2, Mode::Safe);
    queue.open(0, true);
    queue
}

#[test]
fn a_pair_is_in_it_once_and_again_if_it_changes_under_way() {
    let queue = queue();
    queue.push(pair("a"), false);
    queue.push(pair("a"), true);
    assert_eq!(taken(&queue), Some(pair("a")));
    assert_eq!(queue.depth(), Depth { running: 1, ..Depth::default() });
    queue.push(pair("a"), true);
    queue.push(pair("a"), true);
    queue.done(&task("a"), Outcome::Settled);
    assert_eq!(taken(&queue), Some(pair("a")));
    queue.done(&task("a"), Outcome::Settled);
    assert_eq!(queue.depth(), Depth::default());
}

#[test]
fn events_come_before_what_a_list_brought() {
    let queue = queue();
    ["a", "b"].iter().for_each(|name| queue.push(pair(name), false));
    queue.push(pair("c"), true);
    assert_eq!([(); 3].map(|()| taken(&queue)), ["c", "a", "b"].map(|name| Some(pair(name))));
}

#[test]
fn what_cannot_be_worked_on_is_parked_and_comes_back_at_once() {
    let queue = queue();
    let closed = Pair { kind: 1, key: "x".into() };
    queue.push(closed.clone(), true);
    queue.push(pair("a"), true);
    assert_eq!(taken(&queue), Some(pair("a")));
    assert_eq!(queue.depth().parked, 1);
    queue.push(closed.clone(), true);
    queue.done(&task("a"), failed(Class::Refused));
    queue.open(1, true);
    assert_eq!(taken(&queue), Some(closed));
    queue.open(0, false);
    queue.open(0, true);
    assert_eq!(taken(&queue), Some(pair("a")), "its failure was of before");
}

#[test]
fn a_failure_waits_and_an_event_does_not() {
    let queue = queue();
    queue.push(pair("a"), true);
    queue.take();
    queue.done(&task("a"), failed(Class::Stale));
    assert_eq!(taken(&queue), Some(pair("a")), "at once, the first time");
    queue.done(&task("a"), failed(Class::Stale));
    assert_eq!(taken(&queue), Some(pair("a")), "after 5 ms");
    queue.done(&task("a"), failed(Class::Refused));
    assert_eq!(queue.depth(), Depth { failing: 1, ..Depth::default() });
    queue.push(pair("a"), true);
    assert_eq!(taken(&queue), Some(pair("a")));
    queue.done(&task("a"), Outcome::Later(Duration::from_millis(1)));
    assert_eq!(taken(&queue), Some(pair("a")));
}

#[test]
fn a_pair_that_fails_at_each_event_takes_the_room_of_one() {
    let queue = queue();
    for _ in 0..100 {
        queue.push(pair("a"), true);
        queue.take();
        queue.done(&task("a"), failed(Class::Refused));
    }
    assert_eq!(queue.state().delayed.len(), 1);
    queue.open(0, false);
    queue.open(0, true);
    assert!(queue.state().delayed.is_empty());
    assert_eq!(taken(&queue), Some(pair("a")));
}

#[test]
fn a_worker_stays_for_what_is_delayed_and_is_woken_by_what_is_not() {
    let queue = queue();
    queue.push(pair("a"), true);
    assert!(queue.wants_worker());
    queue.take();
    queue.done(&task("a"), Outcome::Later(Duration::MAX));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| taken(&queue));
        while queue.state().idle == 0 {
            std::thread::yield_now();
        }
        queue.push(pair("b"), true);
        assert!(!queue.wants_worker(), "there is one who waits");
        assert_eq!(waiter.join().unwrap(), Some(pair("b")));
    });
}

#[test]
fn workers_begin_as_they_are_needed_and_end_when_it_closes() {
    let queue = queue();
    assert!(!queue.wants_worker());
    ["a", "b", "c"].iter().for_each(|name| queue.push(pair(name), true));
    assert!(queue.wants_worker() && queue.wants_worker() && !queue.wants_worker());
    queue.close();
    assert_eq!(taken(&queue), None);
}

#[test]
fn of_pairs_with_large_objects_one_at_a_time_is_taken_and_the_others_go_on() {
    let queue = queue();
    ["a", "b", "c"].iter().for_each(|name| queue.push(pair(name), true));
    let hurried = [(); 2].map(|()| queue.take().unwrap());
    assert!(hurried.iter().all(|task| !task.large));
    hurried.iter().for_each(|task| queue.done(task, Outcome::Large));
    assert_eq!(queue.depth().queued, 3);
    let large = queue.take().unwrap();
    assert_eq!((&large.pair, large.large), (&pair("a"), true));
    queue.push(pair("b"), true);
    assert_eq!(taken(&queue), Some(pair("c")), "not the next large one");
    queue.done(&task("c"), Outcome::Settled);
    queue.push(pair("a"), true);
    queue.done(&large, Outcome::Settled);
    let next = queue.take().unwrap();
    assert_eq!((&next.pair, next.large), (&pair("b"), true));
    assert_eq!(taken(&queue), Some(pair("a")), "it changed while it was worked on");
}

#[test]
fn a_server_may_ask_for_more_time_for_one_object() {
    let queue = queue();
    queue.push(pair("a"), true);
    queue.take();
    queue.done(&task("a"), Outcome::Failed(Class::Transient, Duration::from_secs(60)));
    let (at, _) = queue.state().delayed.first().cloned().unwrap();
    assert!(at > Instant::now() + Duration::from_secs(50));
}
