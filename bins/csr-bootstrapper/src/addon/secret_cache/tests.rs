use serde_json::json;

use super::*;

fn namespace(name: &str) -> AddOnNamespace {
    AddOnNamespace { hosted: false, name: name.to_owned() }
}

fn secret(of: &str, name: &str) -> RegistrationSecret {
    RegistrationSecret { namespace: namespace(of), name: name.to_owned() }
}

fn at(version: &str) -> SecretVersion {
    SecretVersion::At(version.to_owned())
}

#[test]
fn a_secret_is_known_by_what_its_watch_tells() {
    let (mut secrets, mine) = (AddOnSecrets::default(), secret("one", "a"));
    assert!(!secrets.set(&mine, at("1")), "nobody keeps it");
    secrets.keep([mine.clone()].iter());
    assert_eq!(secrets.next_unwatched(), Some(namespace("one")));
    assert_eq!((secrets.next_unwatched(), secrets.watched(&mine).version), (None, None));
    secrets.set_unknown(&mine, at("1"));
    assert_eq!(secrets.watched(&mine).version, None, "a read says nothing while no watch is open");
    secrets.set_open(&namespace("one"), true);
    secrets.set_unknown(&mine, at("1"));
    secrets.set_unknown(&mine, at("2"));
    assert_eq!(secrets.watched(&mine).version, Some(at("1")), "a read may be older than an event");
    assert!(secrets.set(&mine, at("3")) && !secrets.set(&mine, at("3")));
    assert!(secrets.set(&mine, SecretVersion::Absent));
    let changes = |secrets: &AddOnSecrets| secrets.watched(&mine).changes;
    let before = changes(&secrets);
    assert!(secrets.set(&mine, at("4")) && secrets.set(&mine, SecretVersion::Absent));
    assert_eq!(changes(&secrets), before + 2, "it is not the same as before");
    secrets.set_open(&namespace("one"), false);
    assert_eq!(secrets.watched(&mine).version, None, "events may be lost");
}

#[test]
fn a_namespace_is_watched_while_a_secret_is_kept_there() {
    let mut secrets = AddOnSecrets::default();
    secrets.keep([secret("one", "a"), secret("one", "b"), secret("two", "a")].iter());
    assert!(secrets.next_unwatched().is_some() && secrets.next_unwatched().is_some());
    assert_eq!(secrets.next_unwatched(), None);
    let listed = secrets.listed(&namespace("one"));
    let absent = |name: &str| (name.to_owned(), SecretVersion::Absent);
    assert_eq!(listed, [absent("a"), absent("b")]);
    secrets.keep([secret("one", "b")].iter());
    assert!(secrets.uses(&namespace("one")) && !secrets.uses(&namespace("two")));
    secrets.unwatch(&namespace("two"));
    secrets.keep([secret("two", "a")].iter());
    assert_eq!(secrets.next_unwatched(), Some(namespace("two")));
}

#[test]
fn a_hub_that_names_many_namespaces_costs_no_more_than_the_most() {
    let mut secrets = AddOnSecrets::default();
    let many: Vec<_> = (0..40).map(|number| secret(&format!("n{number}"), "a")).collect();
    secrets.keep(many.iter());
    assert_eq!(std::iter::from_fn(|| secrets.next_unwatched()).count(), MAX_NAMESPACES);
}

#[test]
fn the_version_is_that_of_the_object() {
    let object = json!({"metadata": {"resourceVersion": "7"}});
    assert_eq!(SecretVersion::of(&CachedObject::Object(object)), at("7"));
    assert_eq!(SecretVersion::of(&CachedObject::Absent), SecretVersion::Absent);
}
