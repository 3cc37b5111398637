//! Versions that a store keeps, and its completeness.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::json;

use super::*;
use crate::cache::documents::ROOM;

fn uid(last: u8) -> Uid {
    Uid::parse(&format!("00000000-0000-0000-0000-0000000000{last:02x}")).unwrap()
}

fn known(uid_: u8, version: u64, value: u8) -> Cached<u8> {
    Cached { uid: uid(uid_), version, large: false, value }
}

fn new_store() -> ObjectStore<u8> {
    ObjectStore::new(Arc::default(), 4)
}

#[test]
fn an_echo_is_no_news_and_an_old_event_changes_nothing() {
    let store = new_store();
    assert_eq!(store.put("ns/x", known(1, 5, 0)), PutResult::Changed);
    assert_eq!(store.put("ns/x", known(1, 7, 1)), PutResult::Changed, "the answer to a write");
    assert_eq!(store.put("ns/x", known(1, 6, 9)), PutResult::Unchanged, "an event from before it");
    assert_eq!(store.put("ns/x", known(1, 7, 1)), PutResult::Unchanged, "its echo");
    assert_eq!(store.get("ns/x"), Some(known(1, 7, 1)));
    assert_eq!(store.put("ns/x", known(2, 8, 1)), PutResult::Changed, "another object of the name");
    assert!(!store.removed("ns/x", uid(1), 9) && store.removed("ns/x", uid(2), 9));
    assert_eq!(
        store.put("ns/x", known(2, 8, 1)),
        PutResult::Unchanged,
        "an answer from before its end"
    );
    assert_eq!(store.put("ns/x", known(2, 10, 1)), PutResult::Changed, "it is there again");
    assert!(!store.remove("ns/x", uid(1)) && store.remove("ns/x", uid(2)));
    assert_eq!(store.put("ns/x", known(2, 10, 1)), PutResult::Changed, "who said so was mistaken");
}

#[test]
fn a_list_takes_away_only_when_it_is_complete() {
    let store = new_store();
    for name in ["a", "b", "c"] {
        store.put(&key::of("ns", name), known(1, 5, 0));
    }
    store.finish_list(1);
    store.begin_list(false);
    assert!(store.is_complete(1) && store.len() == 3, "the old rows stay valid");
    assert!(!store.is_complete(2), "but not after a lost connection");
    assert_eq!(store.put("ns/a", known(1, 5, 0)), PutResult::Unchanged);
    assert_eq!(store.put("ns/c", known(1, 9, 1)), PutResult::Changed, "written here meanwhile");
    assert_eq!(store.finish_list(2), [key::of("ns", "b")]);
    assert!(store.is_complete(2));
}

#[test]
fn a_restored_server_may_count_from_below() {
    let store = new_store();
    store.put("ns/a", known(1, 50, 0));
    store.finish_list(1);
    store.begin_list(true);
    assert!(!store.is_complete(1));
    assert_eq!(store.put("ns/a", known(1, 20, 1)), PutResult::Changed);
    assert!(store.finish_list(1).is_empty());
    assert_eq!(store.get("ns/a"), Some(known(1, 20, 1)));
}

#[test]
fn a_namespace_knows_its_objects() {
    let store = new_store();
    for key in ["a/x", "a-b/y", "a/z"] {
        store.put(key, known(1, 1, 0));
    }
    let others = |namespace, own| store.has_others(namespace, |name| name != own);
    assert!(others("a", "x") && others("a-b", ""));
    assert!(!others("a-b", "y") && !others("b", ""));
}

#[test]
fn documents_are_kept_once_and_in_bounded_room() {
    let used = Arc::<AtomicUsize>::default();
    let store = ObjectStore::new(used.clone(), 4);
    let object = json!({"metadata": {"name": "x"}, "spec": {"a": 1}});
    store.keep_document("ns/x", &known(1, 5, 0), &object);
    assert_eq!(store.take_document("ns/x", 5), Some(object.clone()));
    assert_eq!(store.take_document("ns/x", 5), None);
    store.keep_document("ns/x", &known(1, 5, 0), &object);
    assert_eq!(store.take_document("ns/x", 6), None);
    let big = "x".repeat(ROOM / 4);
    for name in ["a", "b", "c", "d", "a"] {
        store.keep_document(name, &known(1, 1, 0), &json!({"metadata": {}, "data": big}));
    }
    let kept = ["a", "b", "c", "d"].map(|name| store.take_document(name, 1).is_some());
    assert_eq!(kept, [true, true, true, false]);
    assert_eq!(used.load(Relaxed), 0);
    store.keep_document("ns/x", &known(1, 5, 0), &object);
    assert_ne!(used.load(Relaxed), 0);
    drop(store);
    assert_eq!(used.load(Relaxed), 0, "a remote went");
}

#[test]
fn a_large_document_is_not_kept() {
    let store = new_store();
    store.keep_document("ns/x", &Cached { large: true, ..known(1, 5, 0) }, &json!({"a": 1}));
    assert_eq!(store.take_document("ns/x", 5), None);
}

#[test]
fn what_is_too_large_is_there_and_nothing_is_known_of_it() {
    let store = new_store();
    store.put("ns/x", known(1, 5, 0));
    assert_eq!(store.put_too_large("ns/x", uid(1), 6), PutResult::Changed);
    assert_eq!(store.put_too_large("ns/x", uid(1), 6), PutResult::Unchanged);
    assert!(store.is_too_large("ns/x") && store.has("ns/x") && store.get("ns/x").is_none());
    assert_eq!((store.keys_in("ns"), store.len()), (vec![key::of("ns", "x")], 1));
    assert!(store.has_others("ns", |name| name == "x"), "a namespace is not empty for that");
    assert_eq!(store.put("ns/x", known(1, 5, 0)), PutResult::Unchanged, "an event from before");
    store.begin_list(false);
    store.put_too_large("ns/x", uid(1), 7);
    assert!(store.finish_list(1).is_empty());
    assert_eq!(store.put("ns/x", known(1, 8, 0)), PutResult::Changed, "it is smaller again");
    assert!(!store.is_too_large("ns/x") && !store.is_too_large("ns/y"));
    store.put_too_large("ns/x", uid(1), 9);
    assert!(store.removed("ns/x", uid(1), 10) && !store.has("ns/x"));
}

#[test]
fn there_are_no_more_rows_than_there_is_room_for() {
    let store = new_store();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(store.put(&key::of("ns", name), known(1, 1, 0)), PutResult::Changed);
    }
    assert_eq!(store.put("ns/e", known(1, 1, 0)), PutResult::Full);
    assert_eq!(store.put_too_large("ns/e", uid(1), 1), PutResult::Full);
    assert_eq!(store.put("ns/a", known(1, 2, 1)), PutResult::Changed, "what is there goes on");
    assert!(store.remove("ns/a", uid(1)));
    assert_eq!(store.put("ns/e", known(1, 1, 0)), PutResult::Changed);
}

#[test]
fn what_is_gone_makes_room_after_there_was_too_much() {
    let store = ObjectStore::new(Arc::default(), 4);
    for name in ["ns/a", "ns/b", "ns/c", "ns/d"] {
        assert_eq!(store.put(name, known(1, 1, 0)), PutResult::Changed);
    }
    assert_eq!(store.put("ns/e", known(1, 1, 0)), PutResult::Full);
    assert_eq!(store.clear(), ["ns/a", "ns/b", "ns/c", "ns/d"].map(ObjectKey::from));
    assert!(store.len() == 0 && !store.is_complete(1));
    store.begin_list(false);
    for name in ["ns/b", "ns/c", "ns/d", "ns/e"] {
        assert_eq!(store.put(name, known(1, 1, 0)), PutResult::Changed);
    }
    assert!(store.finish_list(1).is_empty() && store.is_complete(1));
}
