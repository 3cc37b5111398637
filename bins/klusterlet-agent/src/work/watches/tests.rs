use apiclient::resource::CONFIGMAPS;
use serde_json::json;

use super::*;

/// Watches of one work, which has the object.
fn watches(object: &ResourceIdentifier, scrape: Scrape) -> Watches {
    let watches = Watches::default();
    let mut state = lock(&watches.0);
    state.works.insert("w".to_owned(), vec![object.clone()]);
    let works = BTreeMap::from([("w".to_owned(), scrape)]);
    state.objects.insert(object.clone(), AppliedObject { works, seen: None });
    drop(state);
    watches
}

#[test]
fn status_alone_matters_where_the_work_has_rules() {
    let object = identifier(&CONFIGMAPS, &json!({"metadata": {"name": "a"}}));
    for scrape in [Scrape::Never, Scrape::Poll, Scrape::Watch] {
        let watches = watches(&object, scrape);
        let note = |generation: Value, version: &str| {
            let metadata =
                json!({"name": "a", "generation": generation, "resourceVersion": version});
            watches.note(&CONFIGMAPS, &Document::Whole(json!({"metadata": metadata})), false);
            watches.take_changed().remove("w")
        };
        assert_eq!(note(json!(1), "1"), Some(Scrape::Watch), "it is new");
        assert_eq!(note(json!(1), "1"), None);
        assert_eq!(note(json!(1), "2"), Some(scrape).filter(|s| *s != Scrape::Never));
        assert_eq!(note(json!(2), "3"), Some(Scrape::Watch), "its desired state has changed");
        assert_eq!(note(json!(null), "4"), Some(Scrape::Watch), "none are counted");
    }
}

#[test]
fn kind_that_cannot_be_watched_is_polled_until_it_can_or_no_work_applies_it() {
    let object = identifier(&CONFIGMAPS, &json!({"metadata": {"name": "a"}}));
    let watches = watches(&object, Scrape::Watch);
    let ended = Stop::default();
    let (version, stop) = ("v1".to_owned(), ended.clone());
    let watch = KindWatch { version, refused: None, is_unserved: false, stop };
    lock(&watches.0).kinds.insert(object.kind(), watch);
    for error in [Some(&Error::Unreachable(String::new())), None] {
        watches.set_error(&CONFIGMAPS, error);
        let since = watches.refused_since("w");
        assert_eq!(since.is_some(), error.is_some());
        assert_eq!(watches.refused().contains(&"configmaps".to_owned()), error.is_some());
        watches.set_error(&CONFIGMAPS, error);
        assert_eq!(watches.refused_since("w"), since, "it is known");
        assert!(watches.take_changed().is_empty(), "no pass begins at once");
    }
    let text = String::new;
    for (error, is_unserved) in [
        (Error::NotServed(text()), true),
        (Error::Unreachable(text()), false),
        (Error::Forbidden(text()), true),
        (Error::BadPeer(text()), false),
        (Error::Invalid(text()), true),
    ] {
        watches.set_error(&CONFIGMAPS, Some(&error));
        assert_eq!(lock(&watches.0).kinds[&object.kind()].is_unserved, is_unserved, "{error:?}");
    }
    assert!(!ended.raised());
    watches.retain(|_| false);
    assert!(ended.raised() && lock(&watches.0).kinds.is_empty());
}

#[test]
fn echo_of_an_own_write_is_no_change() {
    let object = |version: &str| json!({"metadata": {"name": "a", "resourceVersion": version}});
    // What is seen before and after the answer to a write, which made version 2.
    let cases: [(&[&str], &[&str], bool); 5] = [
        (&[], &["2"], false),
        (&["2"], &[], false),
        (&[], &["2", "3"], true),
        (&["1", "2"], &[], true),
        (&["2", "3"], &[], true),
    ];
    for (before, after, is_change) in cases {
        let watches = watches(&identifier(&CONFIGMAPS, &object("")), Scrape::Watch);
        let note = |version: &&str| {
            watches.note(&CONFIGMAPS, &Document::Whole(object(version)), false);
        };
        before.iter().for_each(note);
        watches.wrote(&CONFIGMAPS, &object("2"));
        after.iter().for_each(note);
        assert_eq!(!watches.take_changed().is_empty(), is_change, "{before:?} {after:?}");
    }
}

/// Whether its event comes before the answer or after it.
#[test]
fn write_of_one_work_is_told_to_another_one_with_the_object() {
    let object = json!({"metadata": {"name": "a", "resourceVersion": "2"}});
    let identifier = identifier(&CONFIGMAPS, &object);
    for is_first in [true, false] {
        let watches = watches(&identifier, Scrape::Watch);
        let other = ("other".to_owned(), Scrape::Watch);
        lock(&watches.0).objects.get_mut(&identifier).unwrap().works.extend([other]);
        let note = || watches.note(&CONFIGMAPS, &Document::Whole(object.clone()), false);
        let early = is_first.then(note);
        watches.wrote(&CONFIGMAPS, &object);
        early.unwrap_or_else(note);
        assert!(watches.take_changed().contains_key("other"), "{is_first}");
    }
}
