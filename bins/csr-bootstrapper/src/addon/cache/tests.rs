use serde_json::json;

use super::*;

fn addon(namespace: &str, mode: &str) -> AddOn {
    let status = json!({"namespace": namespace, "healthCheck": {"mode": mode}});
    AddOn::of(&json!({"metadata": {"name": "x"}, "status": status})).unwrap()
}

fn namespace(name: &str) -> LeaseNamespace {
    addon(name, "").leases
}

fn all(addons: &[(&str, &str)]) -> BTreeMap<String, AddOn> {
    addons.iter().map(|(name, namespace)| ((*name).to_owned(), addon(namespace, ""))).collect()
}

#[test]
fn each_namespace_is_watched_once_and_while_an_add_on_uses_it() {
    let mut addons = AddOns::default();
    assert_eq!(addons.next_unwatched(), None);
    addons.replace_addons(all(&[("a", "one"), ("b", "one"), ("c", "two")]));
    assert_eq!(addons.next_unwatched(), Some(namespace("one")));
    assert_eq!(addons.next_unwatched(), Some(namespace("two")));
    assert_eq!(addons.next_unwatched(), None);
    addons.set_addon("c", None);
    assert!(addons.uses(&namespace("one")) && !addons.uses(&namespace("two")));
    addons.unwatch(&namespace("two"));
    addons.set_addon("c", Some(addon("two", "Customized")));
    assert_eq!(addons.next_unwatched(), None, "its Lease is nobody's business");
    addons.set_addon("c", Some(addon("two", "Lease")));
    assert_eq!(addons.next_unwatched(), Some(namespace("two")));
}

#[test]
fn only_the_leases_of_add_ons_are_kept_and_as_long_as_they_are_theirs() {
    let mut addons = AddOns::default();
    addons.replace_addons(all(&[("a", "one")]));
    assert!(addons.with_leases().is_empty(), "nobody watches yet");
    while addons.next_unwatched().is_some() {}
    let known = |addons: &AddOns| addons.with_leases().into_iter().map(|(.., lease)| lease).next();
    assert_eq!(known(&addons), Some(None), "nothing is known");
    let (lease, one) = (AddOnLease::Renewed(None), namespace("one"));
    assert!(!addons.set_lease(&one, "election", lease), "of somebody else");
    assert!(!addons.set_lease(&namespace("two"), "a", lease), "in another namespace");
    assert!(addons.set_lease(&one, "a", lease) && !addons.set_lease(&one, "a", lease));
    addons.set_unknown_lease(&one, "a", AddOnLease::Absent);
    assert_eq!(known(&addons), Some(Some(lease)), "a read is older than what a watch says");
    assert_eq!(addons.leases_in(&one), [("a".to_owned(), AddOnLease::Absent)].into());
    addons.set_addon("a", Some(addon("two", "")));
    assert_eq!(known(&addons), None, "it moved");
    assert_eq!(addons.next_unwatched(), Some(namespace("two")));
    assert_eq!(known(&addons), Some(None));
    addons.set_lease(&namespace("two"), "a", lease);
    addons.unwatch(&namespace("two"));
    assert_eq!(known(&addons), None, "nobody watches");
    assert_eq!(addons.next_unwatched(), Some(namespace("two")));
    assert_eq!(known(&addons), Some(None), "what was known is too old");
}

#[test]
fn a_hub_that_lists_too_many_costs_no_more_than_the_most() {
    let mut addons = AddOns::default();
    let names: Vec<_> = (0..MOST_ADDONS + 5).map(|number| format!("a{number:04}")).collect();
    let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    assert!(addons.replace_addons(all(&pairs)));
    assert_eq!(addons.leases_in(&namespace("a0499")).len(), 1);
    assert!(!addons.uses(&namespace("a0500")));
    assert!(addons.set_addon("z", Some(addon("z", ""))), "one more");
    assert!(!addons.set_addon("a0000", Some(addon("z", ""))), "one that is known");
    let watched = std::iter::from_fn(|| addons.next_unwatched()).count();
    assert_eq!((watched, addons.with_leases().len()), (MOST_NAMESPACES, MOST_NAMESPACES));
}
