use super::*;
use serde_json::json;

fn key(name: &str) -> Key {
    Key { resource: "secrets".into(), namespace: "a".into(), name: name.into() }
}

fn put(store: &Store, name: &str) -> Value {
    let object = json!({"metadata": {"name": name}});
    let done: Result<Value, ()> = store.transact(&key(name), |_| Ok(Outcome::Put(object)));
    done.expect("a put succeeds")
}

#[test]
fn versions_grow_by_one_over_all_objects() {
    let store = Store::default();
    assert_eq!(put(&store, "x")["metadata"]["resourceVersion"], "1");
    assert_eq!(put(&store, "y")["metadata"]["resourceVersion"], "2");
    assert_eq!(store.snapshot("secrets", "").objects.len(), 2);
    assert_eq!(store.snapshot("secret", "").objects.len(), 0);
    assert_eq!(store.snapshot("secrets", "b").objects.len(), 0);
}

#[test]
fn a_watch_sees_what_it_missed_and_what_follows() {
    let store = Store::default();
    put(&store, "x");
    put(&store, "x");
    let events = store.watch("secrets", "a", 1).expect("history is there");
    put(&store, "y");
    let seen: Vec<_> = events.try_iter().map(|e| (e.version, e.change)).collect();
    assert_eq!(seen, [(2, Change::Modified), (3, Change::Added)]);
}

#[test]
fn compaction_makes_all_known_versions_too_old() {
    let store = Store::default();
    put(&store, "x");
    store.compact();
    assert!(store.watch("secrets", "", 1).is_none());
    assert!(store.watch("secrets", "", store.version()).is_some());
}
