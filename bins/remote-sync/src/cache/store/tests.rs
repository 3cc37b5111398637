//! Versions that a store keeps, and its completeness.

use serde_json::json;

use super::*;
use crate::model::key;

fn uid(last: u8) -> Uid {
    Uid::parse(&format!("00000000-0000-0000-0000-0000000000{last:02x}")).unwrap()
}

fn known(uid_: u8, version: u64, value: u8) -> Cached<u8> {
    Cached { uid: uid(uid_), version, large: false, value }
}

fn finish_list(store: &ObjectStore<u8>, session: u64) -> Vec<ObjectKey> {
    let gone = store.finish_list();
    store.set_complete(session);
    gone
}

fn new_store() -> Arc<ObjectStore<u8>> {
    ObjectStore::new(&Arc::default(), 4)
}

fn shown(object: Cached<u8>) -> Answer<u8> {
    Answer { lists: 0, uid: object.uid, object: Some(object) }
}

#[test]
fn answer_is_newest_until_the_store_has_seen_its_version() {
    let store = new_store();
    store.put("ns/x", Seen::Whole(known(1, 5, 0))).unwrap();
    let newest = |answer: &mut Option<Answer<u8>>| {
        store.newest("ns/x", answer).map(|known| (known.version, known.value))
    };
    let mut answer = Some(shown(known(1, 7, 1)));
    assert_eq!(newest(&mut answer), Some((7, 1)), "a write");
    store.put("ns/x", Seen::Whole(known(1, 6, 9))).unwrap();
    assert_eq!(newest(&mut answer), Some((7, 1)), "an event from before it");
    store.put("ns/x", Seen::Whole(known(1, 7, 1))).unwrap();
    assert_eq!((newest(&mut answer), answer.take()), (Some((7, 1)), None), "its own event");
    answer = Some(shown(known(1, 7, 2)));
    assert_eq!(newest(&mut answer), Some((7, 2)), "what this very version becomes");
    store.put("ns/x", Seen::Whole(known(1, 8, 3))).unwrap();
    assert_eq!((newest(&mut answer), answer.take()), (Some((8, 3)), None));
    answer = Some(shown(known(1, 10, 4)));
    assert!(store.removed("ns/x", (uid(1), 9)));
    assert_eq!(newest(&mut answer), Some((10, 4)), "made since, or selected again");
    store.removed("ns/x", (uid(1), 11));
    assert_eq!((newest(&mut answer), answer.take()), (None, None), "it went meanwhile");
    store.put("ns/x", Seen::Whole(known(1, 12, 0))).unwrap();
    answer = Some(Answer { lists: 0, uid: uid(1), object: None });
    assert_eq!(newest(&mut answer), None);
    store.put("ns/x", Seen::Whole(known(2, 13, 0))).unwrap();
    assert_eq!((newest(&mut answer), answer.take()), (Some((13, 0)), None), "another one");
    answer = Some(shown(known(2, 14, 1)));
    store.begin_list(false);
    store.put("ns/x", Seen::Whole(known(2, 3, 5))).unwrap();
    finish_list(&store, 1);
    assert_eq!((newest(&mut answer), answer), (Some((3, 5)), None), "a list knows better");
}

#[test]
fn a_list_takes_away_only_when_it_is_complete() {
    let store = new_store();
    for name in ["a", "b", "c"] {
        store.put(&key::of("ns", name), Seen::Whole(known(1, 5, 0))).unwrap();
    }
    finish_list(&store, 1);
    store.begin_list(false);
    assert!(store.is_complete(1) && store.len() == 3, "the old rows stay valid");
    assert!(!store.is_complete(2), "but not after a lost connection");
    assert_eq!(store.put("ns/a", Seen::Whole(known(1, 5, 0))), Some(false));
    assert_eq!(
        store.put("ns/c", Seen::Whole(known(1, 9, 1))),
        Some(true),
        "written here meanwhile"
    );
    assert_eq!(finish_list(&store, 2), [key::of("ns", "b")]);
    assert!(store.is_complete(2));
}

#[test]
fn a_restored_server_may_count_from_below() {
    let store = new_store();
    store.put("ns/a", Seen::Whole(known(1, 50, 0))).unwrap();
    finish_list(&store, 1);
    store.begin_list(true);
    assert!(!store.is_complete(1));
    assert_eq!(store.put("ns/a", Seen::Whole(known(1, 20, 1))), Some(true));
    assert!(finish_list(&store, 1).is_empty());
    assert_eq!(store.get("ns/a"), Some(known(1, 20, 1)));
}

#[test]
fn documents_are_kept_once_and_the_oldest_make_room() {
    let documents = Arc::default();
    let [store, other] = [(); 2].map(|()| ObjectStore::new(&documents, 4));
    let object = json!({"metadata": {"name": "x"}, "spec": {"a": 1}});
    store.keep_document("ns/x", &known(1, 5, 0), &object);
    assert_eq!(other.take_document("ns/x", 5), None);
    assert_eq!(store.take_document("ns/x", 5), Some(object.clone()));
    assert_eq!(store.take_document("ns/x", 5), None);
    store.keep_document("ns/x", &known(1, 5, 0), &object);
    assert_eq!(store.take_document("ns/x", 6), None);
    let big = "x".repeat(MAX_BYTES / 4);
    for name in ["a", "b", "c", "a", "d"] {
        store.keep_document(name, &known(1, 1, 0), &json!({"metadata": {}, "data": big}));
    }
    let kept = ["a", "b", "c", "d"].map(|name| store.take_document(name, 1).is_some());
    assert_eq!(kept, [true, false, true, true]);
}

#[test]
fn what_is_too_large_is_there_and_nothing_is_known_of_it() {
    let store = new_store();
    store.put("ns/x", Seen::Whole(known(1, 5, 0))).unwrap();
    assert_eq!(store.put("ns/x", Seen::TooLarge(uid(1), 6)), Some(true));
    assert_eq!(store.put("ns/x", Seen::TooLarge(uid(1), 6)), Some(false));
    assert!(store.is_too_large("ns/x") && store.has("ns/x") && store.get("ns/x").is_none());
    assert_eq!(store.len(), 1);
    assert_eq!(store.filter_map(|key, value| value.is_none().then(|| key.to_owned())), ["ns/x"]);
    store.begin_list(false);
    store.put("ns/x", Seen::TooLarge(uid(1), 7)).unwrap();
    assert!(finish_list(&store, 1).is_empty());
    assert_eq!(store.put("ns/x", Seen::Whole(known(1, 8, 0))), Some(true), "it is smaller again");
    assert!(!store.is_too_large("ns/x") && !store.is_too_large("ns/y"));
    store.put("ns/x", Seen::TooLarge(uid(1), 9)).unwrap();
    assert!(store.removed("ns/x", (uid(1), 10)) && !store.has("ns/x"));
}

#[test]
fn there_are_no_more_rows_than_there_is_room_for() {
    let store = new_store();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(store.put(&key::of("ns", name), Seen::Whole(known(1, 1, 0))), Some(true));
    }
    assert_eq!(store.put("ns/e", Seen::Whole(known(1, 1, 0))), None);
    assert_eq!(store.put("ns/e", Seen::TooLarge(uid(1), 1)), None);
    assert_eq!(store.put("ns/a", Seen::Whole(known(1, 2, 1))), Some(true), "what is there goes on");
    assert!(store.removed("ns/a", (uid(1), 3)));
    assert_eq!(store.put("ns/e", Seen::Whole(known(1, 1, 0))), Some(true));
}
