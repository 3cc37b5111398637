//! What a table believes.

use serde_json::json;

use super::*;

fn uid(last: u8) -> Uid {
    Uid::parse(&format!("00000000-0000-0000-0000-0000000000{last:02x}")).unwrap()
}

fn known(uid_: u8, version: u64, row: u8) -> Known<u8> {
    Known { uid: uid(uid_), version, row }
}

const ALL: Scope<'static> = Scope { index: 0, namespace: None };

fn table() -> Table<u8> {
    Table::new(Arc::default(), 1)
}

#[test]
fn an_echo_is_no_news_and_an_old_event_changes_nothing() {
    let table = table();
    assert!(table.put("ns/x", known(1, 5, 0)));
    assert!(table.put("ns/x", known(1, 7, 1)), "the answer to a write");
    assert!(!table.put("ns/x", known(1, 6, 9)), "an event from before it");
    assert!(!table.put("ns/x", known(1, 7, 1)), "its echo");
    assert_eq!(table.get("ns/x"), Some(known(1, 7, 1)));
    assert!(table.put("ns/x", known(2, 8, 1)), "another object of the name");
    assert!(!table.removed("ns/x", &known(1, 9, 1)) && table.removed("ns/x", &known(2, 9, 1)));
    assert!(!table.put("ns/x", known(2, 8, 1)), "an answer from before its end");
    assert!(table.put("ns/x", known(2, 10, 1)), "it is selected again");
    assert!(!table.remove("ns/x", uid(1)) && table.remove("ns/x", uid(2)));
    assert!(table.put("ns/x", known(2, 10, 1)), "who said so was mistaken");
}

#[test]
fn a_list_takes_away_only_when_it_is_complete() {
    let table = table();
    for name in ["a", "b", "c"] {
        table.put(&key("ns", name), known(1, 5, 0));
    }
    table.complete(ALL, 1);
    table.begin(ALL, false);
    assert!(table.is_complete(1) && table.len() == 3, "the old rows stay valid");
    assert!(!table.is_complete(2), "but not after a lost connection");
    assert!(!table.put("ns/a", known(1, 5, 0)));
    assert!(table.put("ns/c", known(1, 9, 1)), "written here meanwhile");
    assert_eq!(table.complete(ALL, 2), [key("ns", "b")]);
    assert!(table.is_complete(2));
}

#[test]
fn a_list_of_a_namespace_says_nothing_of_the_others() {
    let table = Table::new(Arc::default(), 2);
    for key in ["a/x", "b/y"] {
        table.put(key, known(1, 5, 0));
    }
    for (index, namespace) in ["a", "b"].into_iter().enumerate() {
        let scope = Scope { index, namespace: Some(namespace) };
        assert!(!table.is_complete(1));
        table.begin(scope, false);
        assert_eq!(table.complete(scope, 1).len(), 1, "{namespace}");
    }
    assert!(table.is_complete(1));
}

#[test]
fn a_restored_server_may_count_from_below() {
    let table = table();
    table.put("ns/a", known(1, 50, 0));
    table.complete(ALL, 1);
    table.begin(ALL, true);
    assert!(!table.is_complete(1));
    assert!(table.put("ns/a", known(1, 20, 1)));
    assert!(table.complete(ALL, 1).is_empty());
    assert_eq!(table.get("ns/a"), Some(known(1, 20, 1)));
}

#[test]
fn a_namespace_knows_its_objects() {
    let table = table();
    for key in ["a/x", "a-b/y", "a/z"] {
        table.put(key, known(1, 1, 0));
    }
    let others = |namespace, own| table.has_others(namespace, |name| name != own);
    assert!(others("a", "x") && others("a-b", ""));
    assert!(!others("a-b", "y") && !others("b", ""));
}

#[test]
fn documents_are_kept_once_for_their_version_and_in_bounded_room() {
    let table = table();
    let object = || json!({"metadata": {"managedFields": [1], "name": "x"}, "spec": {"a": 1}});
    table.keep_body("ns/x", 5, &mut object());
    let kept = table.take_body("ns/x", 5).unwrap();
    assert_eq!(kept, json!({"metadata": {"name": "x"}, "spec": {"a": 1}}));
    assert_eq!(table.take_body("ns/x", 5), None);
    table.keep_body("ns/x", 5, &mut object());
    assert_eq!(table.take_body("ns/x", 6), None);
    let big = "x".repeat(ROOM / 2);
    for name in ["a", "b", "a"] {
        table.keep_body(name, 1, &mut json!({"metadata": {}, "data": big}));
    }
    assert!(table.take_body("a", 1).is_some() && table.take_body("b", 1).is_none());
    assert_eq!(table.used.load(Relaxed), 0);
    table.keep_body("ns/x", 5, &mut object());
    let used = table.used.clone();
    assert_ne!(used.load(Relaxed), 0);
    drop(table);
    assert_eq!(used.load(Relaxed), 0, "a remote went");
}
