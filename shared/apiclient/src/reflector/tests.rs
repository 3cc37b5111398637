use super::*;

fn listed(store: &Store<u8>, objects: &[(&str, Option<u8>)]) {
    let mut list = lock(&store.0).empty();
    for (name, object) in objects {
        list.insert((*name).to_owned(), *object);
    }
    lock(&store.0).replace(list);
}

fn set(store: &Store<u8>, name: &str, object: Option<u8>) {
    lock(&store.0).set(name.to_owned(), object);
}

#[test]
fn nothing_is_absent_before_a_whole_list() {
    let store = Store::new(2);
    set(&store, "a", Some(1));
    assert_eq!(store.get("a"), Lookup::Object(1));
    assert_eq!(store.get("b"), Lookup::Unknown);
    assert_eq!(store.read(BTreeMap::len), None);
    listed(&store, &[("a", Some(1)), ("odd", None)]);
    assert!(store.is_complete() && store.first_invalid().is_some());
    assert_eq!((store.get("b"), store.get("odd")), (Lookup::Absent, Lookup::Invalid));
}

#[test]
fn failure_changes_no_object() {
    let store = Store::new(2);
    listed(&store, &[("a", Some(1))]);
    let before = store.revision();
    lock(&store.0).error = Some("no answer".into());
    assert_eq!((store.get("a"), store.revision()), (Lookup::Object(1), before));
    assert_eq!(store.last_error().as_deref(), Some("no answer"));
    lock(&store.0).error = None;
    assert_eq!(store.last_error(), None);
}

#[test]
fn objects_beyond_the_limit_are_omitted_until_there_is_room() {
    let store = Store::new(2);
    listed(&store, &[("a", Some(1)), ("b", Some(2))]);
    set(&store, "c", Some(3));
    assert!(!store.is_complete());
    assert_eq!((store.get("c"), store.read(BTreeMap::len)), (Lookup::Unknown, Some(2)));
    set(&store, "b", Some(7));
    assert_eq!(store.get("b"), Lookup::Object(7), "one that is known");
    lock(&store.0).remove("a");
    assert!(!store.is_complete());
    listed(&store, &[("b", Some(7)), ("c", Some(3))]);
    assert!(store.is_complete());
}

#[test]
fn omitted_objects_are_named_where_a_warning_is_wanted() {
    let omitted = |store: &Store<u8>| lock(&store.0).omitted();
    for (objects, expected) in [
        (&[("a", Some(1)), ("b", Some(2))][..], None),
        (&[("a", Some(1)), ("odd", None)], Some("odd")),
        (&[("a", Some(1)), ("b", Some(2)), ("c", Some(3))], Some("")),
    ] {
        let (silent, warning) = (Store::new(2), Store::new(2).warning());
        listed(&silent, objects);
        listed(&warning, objects);
        assert_eq!((omitted(&silent), omitted(&warning).as_deref()), (None, expected));
    }
}

#[test]
fn only_changes_count() {
    let store = Store::new(2);
    listed(&store, &[("a", Some(1))]);
    let before = store.revision();
    listed(&store, &[("a", Some(1))]);
    set(&store, "a", Some(1));
    lock(&store.0).remove("b");
    assert_eq!(store.revision(), before);
    set(&store, "a", None);
    lock(&store.0).remove("a");
    assert_eq!(store.revision(), before + 2);
}

#[test]
fn answer_to_a_write_yields_to_a_later_event() {
    let store = Store::new(2);
    listed(&store, &[]);
    let sent = store.revision();
    store.put(sent, "a", Some(1));
    assert_eq!(store.get("a"), Lookup::Object(1));
    store.put(sent, "a", Some(2));
    assert_eq!(store.get("a"), Lookup::Object(1));
    store.put(store.revision(), "a", None);
    assert_eq!(store.get("a"), Lookup::Absent);
}

#[test]
fn heaviest_objects_leave_room_for_the_others() {
    let store = Store::new(100).weighing_at_most(10, |number: &u8| usize::from(*number));
    listed(&store, &[("a", Some(4)), ("b", Some(5))]);
    set(&store, "c", Some(6));
    assert_eq!((store.get("c"), store.get("b")), (Lookup::Invalid, Lookup::Object(5)));
    let size = lock(&store.0).objects.size();
    assert!(!lock(&store.0).objects.made_room(size));
    lock(&store.0).remove("b");
    assert!(lock(&store.0).objects.made_room(size));
    listed(&store, &[("a", Some(4)), ("c", Some(6))]);
    assert!(store.get("c") == Lookup::Object(6));
    let mut all = lock(&store.0).empty();
    assert!(all.insert("a".to_owned(), Some(7)) && all.insert("b".to_owned(), Some(8)));
    assert_eq!((all.weight, all.left_out), (7, 1));
    assert_eq!(all.by_name.into_values().collect::<Vec<_>>(), [Some(7), None]);
}
