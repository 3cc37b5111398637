use serde_json::json;

use super::*;

fn addon(namespace: &str, mode: &str) -> AddOn {
    let status = json!({"namespace": namespace, "healthCheck": {"mode": mode}});
    AddOn::of(&json!({"metadata": {"name": "x"}, "status": status})).unwrap()
}

fn all(addons: &[(&str, &str)]) -> Vec<(String, Option<AddOn>)> {
    let addon = |namespace: &str| Some(addon(namespace, ""));
    addons.iter().map(|(name, namespace)| ((*name).to_owned(), addon(namespace))).collect()
}

#[test]
fn add_ons_with_another_health_check_have_no_lease() {
    let mut addons = AddOns::default();
    addons.replace_addons(all(&[("a", "one"), ("b", "two")]));
    addons.set_addon("b", Some(addon("two", "Customized")));
    let names: Vec<_> = addons.by_lease().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a"]);
}

#[test]
fn a_hub_that_lists_too_many_costs_no_more_than_the_most() {
    let mut addons = AddOns::default();
    let names: Vec<_> = (0..MAX_ADDONS + 5).map(|number| format!("a{number:04}")).collect();
    let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    assert!(addons.replace_addons(all(&pairs)));
    assert!(addons.set_addon("z", Some(addon("z", ""))), "one more");
    assert!(!addons.set_addon("a0000", Some(addon("z", ""))), "one that is known");
    assert_eq!(addons.by_lease().len(), MAX_ADDONS);
}

/// What is deleted with an add-on is lost.
#[test]
fn an_add_on_is_gone_only_if_all_are_known() {
    let mut addons = AddOns::default();
    let known = |addons: &AddOns| {
        let before = KnownAddOns { revision: u64::MAX, ..KnownAddOns::default() };
        addons.since(&before).unwrap()
    };
    assert!(!known(&addons).is_gone("a"), "nothing was listed yet");
    addons.set_addon("b", Some(addon("one", "")));
    assert!(!known(&addons).is_gone("a"), "nor now");
    addons.replace_addons([("a".into(), Some(addon("one", ""))), ("b".into(), None)].into());
    let (a, b) = (known(&addons).is_gone("a"), known(&addons).is_gone("b"));
    assert_eq!((a, b, known(&addons).is_gone("c")), (false, false, true), "b cannot be read");
    addons.remove_addon("a");
    addons.remove_addon("b");
    assert!(known(&addons).is_gone("a") && known(&addons).is_gone("b"));
    let many = (0..=MAX_ADDONS).map(|number| (format!("{number}"), Some(addon("one", ""))));
    assert!(addons.replace_addons(many.collect()));
    assert!(!known(&addons).is_gone("a"), "it may be one of those that have no room");
    addons.replace_addons(all(&[("a", "one")]));
    addons.clear();
    assert!(!known(&addons).is_gone("a"), "the session has ended");
}

#[test]
fn the_add_ons_are_handed_out_once_for_each_change() {
    let mut addons = AddOns::default();
    let before = KnownAddOns::default();
    assert!(addons.since(&before).is_none());
    addons.replace_addons(all(&[("a", "one")]));
    let known = addons.since(&before).unwrap();
    assert!(known.by_name.contains_key("a") && addons.since(&known).is_none());
    addons.set_addon("a", None);
    assert!(addons.since(&known).unwrap().by_name.is_empty());
}

#[test]
fn answer_does_not_replace_newer_events_of_the_watch() {
    let mut addons = AddOns::default();
    addons.replace_addons(all(&[("a", "one")]));
    let before = addons.revision();
    addons.set_addon("a", Some(addon("two", "Default")));
    addons.answered(before, "a", Some(Some(addon("one", "Default"))));
    assert_eq!(addons.by_name["a"].namespace.name, "two");
    addons.answered(before, "a", None);
    assert_eq!(addons.by_name["a"].namespace.name, "two");
    addons.answered(addons.revision(), "a", Some(Some(addon("three", "Default"))));
    assert_eq!(addons.by_name["a"].namespace.name, "three");
    addons.answered(addons.revision(), "a", None);
    assert!(addons.by_name.is_empty());
    let before = addons.revision();
    addons.clear();
    addons.answered(before, "a", Some(Some(addon("one", "Default"))));
    assert!(addons.by_name.is_empty(), "the session has ended");
}

/// An add-on with a text that is so long.
fn of(length: usize) -> AddOn {
    let status = json!({"namespace": "one", "registrations": [{"signerName": "x".repeat(length)}]});
    AddOn::of(&json!({"metadata": {"name": "x"}, "status": status})).unwrap()
}

#[test]
fn room_for_addons_that_were_left_out_lists_them_again() {
    let mut addons = AddOns::default();
    let all = |count: usize| (0..count).map(|number| (number.to_string(), Some(of(15 << 10))));
    addons.replace_addons(all(17).collect());
    addons.remove_addon("16");
    assert!(!addons.wants_list(), "none is left out");
    addons.set_addon("16", Some(of(15 << 10)));
    addons.set_addon("long", Some(of((15 << 10) + 1)));
    assert!(addons.unreadable.contains("long") && !addons.wants_list());
    addons.set_addon("0", Some(of(1 << 10)));
    assert!(addons.wants_list() && !addons.wants_list(), "once for each change");
    addons.set_addon("0", Some(of(2 << 10)));
    assert!(!addons.wants_list(), "it takes more room");
    addons.remove_addon("16");
    assert!(addons.wants_list());
    addons.remove_addon("15");
    addons.replace_addons(all(15).chain([("long".into(), Some(of((15 << 10) + 1)))]).collect());
    assert!(!addons.wants_list() && addons.by_name.contains_key("long"));
}

#[test]
fn room_among_too_many_addons_lists_them_again() {
    let mut addons = AddOns::default();
    let many = (0..=MAX_ADDONS).map(|number| (format!("{number}"), Some(addon("one", ""))));
    addons.replace_addons(many.collect());
    addons.remove_addon("0");
    assert!(addons.wants_list());
}

#[test]
fn longest_addons_leave_room_for_the_others() {
    let mut addons = AddOns::default();
    let long = (0..100).map(|number| (format!("long-{number}"), Some(of(15 << 10))));
    let mut all: Vec<_> = long.collect();
    leave_longest(&mut all);
    assert!(all.iter().filter(|(_, addon)| addon.is_some()).count() < 20);
    addons.replace_addons(all);
    for number in 0..100 {
        addons.set_addon(&format!("short-{number}"), Some(of(1 << 10)));
    }
    let known = addons.since(&KnownAddOns::default()).unwrap();
    let kept = |kind: &str| known.by_name.keys().filter(|name| name.starts_with(kind)).count();
    assert_eq!(kept("short"), 100);
    assert!((1..17).contains(&kept("long")));
    assert!(!known.is_gone("long-99") && known.is_gone("none"), "it is there all the same");
}

#[test]
fn addon_without_its_hosting_cluster_stays_hosted_for_a_moment() {
    let of = |hosting: Option<&str>| {
        let annotations = json!({"addon.open-cluster-management.io/hosting-cluster-name": hosting});
        AddOn::of(&json!({"metadata": {"name": "a", "annotations": annotations}})).unwrap()
    };
    let hosted = |addons: &AddOns| {
        let addon = &addons.by_name["a"];
        assert_eq!(addon.namespace.hosted, addon.hosting_cluster.is_some());
        addon.namespace.hosted
    };
    let mut addons = AddOns::default();
    addons.replace_addons(vec![("a".into(), Some(of(Some("h"))))]);
    for _ in 0..2 {
        addons.set_addon("a", Some(of(None)));
        addons.replace_addons(vec![("a".into(), Some(of(None)))]);
        assert!(hosted(&addons) && addons.settle(Instant::now()).is_some());
        addons.set_addon("a", Some(of(Some("h"))));
        assert_eq!(addons.settle(Instant::now() + UNHOSTED_TIMEOUT), None, "it is back");
        assert!(hosted(&addons));
    }
    addons.set_addon("a", Some(of(None)));
    let before = addons.revision();
    assert_eq!(addons.settle(Instant::now() + UNHOSTED_TIMEOUT), None);
    assert!(!hosted(&addons) && addons.revision() > before);
    addons.set_addon("a", Some(of(None)));
    assert!(!hosted(&addons) && addons.settle(Instant::now()).is_none());
}
