//! Names in both directions.

use super::*;
use Role::{Source, Target};

fn names(resource_suffix: &str, namespace_suffix: &str, namespace_prefix: &str) -> NameMapping {
    let mapping = NameMapping {
        resource_suffix: resource_suffix.into(),
        namespace_suffix: namespace_suffix.into(),
        namespace_prefix: namespace_prefix.into(),
        ..NameMapping::default()
    };
    mapping.names("east")
}

#[test]
fn an_event_leads_to_the_canonical_names() {
    for (suffixes, event, expected) in [
        (["-us-east", "", "my-"], (Source, "my-t1", "tenant-us-east"), Some(("my-t1", "tenant"))),
        (["-us-east", "", "my-"], (Source, "my-t1", "tenant-eu"), None),
        (["-us-east", "", "my-"], (Source, "other", "tenant-us-east"), None),
        (["-us-east", "", "my-"], (Target, "other", "tenant"), None),
        (["-rs", "-ns", ""], (Source, "a", "test-rs"), Some(("a", "test"))),
        (["-rs", "-ns", ""], (Target, "a-ns", "test"), Some(("a", "test"))),
        // Only the mapping's own suffix counts.
        (["-rs", "-ns", ""], (Target, "a-ns-ns", "test"), Some(("a-ns", "test"))),
        (["-east", "", ""], (Source, "x", "foo-us-east"), Some(("x", "foo-us"))),
        (["-a", "", ""], (Source, "x", "-a"), Some(("x", ""))),
        (["-{cluster}", "", ""], (Source, "x", "foo-east"), Some(("x", "foo"))),
        (["", "-{cluster}", ""], (Target, "x-east", "foo"), Some(("x", "foo"))),
        (["", "-{cluster}", ""], (Target, "x-west", "foo"), None),
        (["", "", ""], (Source, "x", "foo"), Some(("x", "foo"))),
        // Cluster-scoped.
        (["-rs", "-ns", "my-"], (Source, "", "test-rs"), Some(("", "test"))),
        (["-rs", "-ns", "my-"], (Target, "", "test"), Some(("", "test"))),
    ] {
        let [resource, namespace, prefix] = suffixes;
        let names = names(resource, namespace, prefix);
        let (role, namespace, name) = event;
        assert_eq!(names.canonical(role, namespace, name), expected, "{suffixes:?} {event:?}");
    }
}

#[test]
fn the_canonical_names_lead_to_both_sides() {
    let pair = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    let both = names("-us-east", "-ns", "my-");
    assert_eq!(both.source("my-t1", "tenant"), pair("my-t1", "tenant-us-east"));
    assert_eq!(both.target("my-t1", "tenant"), pair("my-t1-ns", "tenant"));
    assert_eq!(both.source("", "tenant"), pair("", "tenant-us-east"));
    assert_eq!(both.target("", "tenant"), pair("", "tenant"));
    let remote = names("-{cluster}", "-{cluster}", "");
    assert_eq!(remote.source("x", "foo"), pair("x", "foo-east"));
    assert_eq!(remote.target("x", "foo"), pair("x-east", "foo"));
}

#[test]
fn names_that_no_object_can_have_are_refused() {
    let check = |namespace: &str, name: &str| names("-rs", "-ns", "").check(namespace, name);
    assert_eq!(check("a", "test"), Ok(()));
    assert_eq!(check("", "test"), Ok(()));
    let longest = "n".repeat(250);
    assert_eq!(check(&"a".repeat(60), &longest), Ok(()));
    for (namespace, name, sentence) in [
        ("a", "", "the source would be \"a/-rs\", which is not a valid name"),
        ("a", "A", "the source would be \"a/A-rs\""),
        ("a", &*format!("{longest}n"), "the source would be \"a/nnn"),
        (&*"a".repeat(61), "test", "the target would be \"aaa"),
        ("A", "test", "the source would be \"A/test-rs\", which is not a valid name"),
    ] {
        let refusal = check(namespace, name).unwrap_err();
        assert!(refusal.starts_with(sentence), "{refusal}");
    }
    let refusal = names("rs", "", "").check("a", "x-").unwrap_err();
    assert_eq!(refusal, "the target would be \"a/x-\", which is not a valid name");
    let refusal = names("rs", "", "").check("a", "").unwrap_err();
    assert_eq!(refusal, "the target would be \"a/\", which is not a valid name");
}

#[test]
fn suffixes_overlap_where_one_ends_with_the_other() {
    let suffixes = |suffix: &str| names(suffix, suffix, "");
    for (one, other, expected) in [
        ("-east", "-us-east", true),
        ("", "-east", true),
        ("-east", "-west", false),
        (".east", "-east", false),
    ] {
        let (one, other) = (suffixes(one), suffixes(other));
        assert_eq!(one.shares_sources(&other), expected);
    }
}

#[test]
fn with_fixed_namespaces_a_target_does_not_tell_its_source() {
    let template = NameMapping {
        resource_suffix: "-{cluster}".into(),
        namespace_prefix: "cluster".into(),
        source_namespace: Some("cluster1".into()),
        target_namespace: Some("agent".into()),
        ..NameMapping::default()
    };
    for names in [template.names("east"), template.common()] {
        assert_eq!(names.canonical(Target, "agent", "x"), Some(("cluster1", "x")));
        assert_eq!(names.target("cluster1", "x"), ("agent".into(), "x".into()));
        for elsewhere in ["cluster1", "agent-2", "other"] {
            assert_eq!(names.canonical(Target, elsewhere, "x"), None);
        }
        assert_eq!(names.canonical(Target, "", "x"), Some(("", "x")));
        assert_eq!(names.target("", "x"), (String::new(), "x".into()));
    }
    let names = template.names("east");
    assert_eq!(names.canonical(Source, "cluster1", "x-east"), Some(("cluster1", "x")));
    assert_eq!(names.canonical(Source, "cluster2", "x-east"), None, "the same name elsewhere");
    assert_eq!(names.canonical(Source, "", "x-east"), Some(("", "x")));
}

#[test]
fn what_all_remotes_have_in_common_leaves_out_none_of_their_objects() {
    let template = NameMapping {
        resource_suffix: "-{cluster}".into(),
        namespace_suffix: "-{cluster}".into(),
        source_namespace: Some("team".into()),
        ..NameMapping::default()
    };
    for names in [template.names("east"), template.common()] {
        assert!(names.canonical(Source, "team", "x-east").is_some());
        assert!(names.canonical(Target, "team-east", "x").is_some(), "{names:?}");
    }
}
