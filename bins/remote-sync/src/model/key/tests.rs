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
    let both = names("-us-east", "-ns", "my-");
    let remote = names("-{cluster}", "-{cluster}", "");
    for (names, canonical, source, target) in [
        (&both, "my-t1/tenant", "my-t1/tenant-us-east", "my-t1-ns/tenant"),
        (&both, "/tenant", "/tenant-us-east", "/tenant"),
        (&remote, "x/foo", "x/foo-east", "x-east/foo"),
    ] {
        let keys = (names.source_key(canonical), names.target_key(canonical));
        assert_eq!((&*keys.0, &*keys.1), (source, target));
    }
}

#[test]
fn names_that_no_object_can_have_are_refused() {
    let checked = |suffix: &str, canonical: &str| {
        let names = names(suffix, "-ns", "");
        check(&names.source_key(canonical), &names.target_key(canonical))
    };
    let (longest, longest_namespace) = ("n".repeat(250), "a".repeat(60));
    for valid in ["a/test", "/test", &format!("{longest_namespace}/{longest}")] {
        assert_eq!(checked("-rs", valid), Ok(()));
    }
    for (suffix, canonical, sentence) in [
        ("-rs", "a/", "the source would be \"a/-rs\", which is not a valid name"),
        ("-rs", "a/A", "the source would be \"a/A-rs\""),
        ("-rs", &*format!("a/{longest}n"), "the source would be \"a/nnn"),
        ("-rs", &*format!("{longest_namespace}a/test"), "the target would be \"aaa"),
        ("-rs", "A/test", "the source would be \"A/test-rs\", which is not a valid name"),
        ("rs", "a/x-", "the target would be \"a-ns/x-\", which is not a valid name"),
        ("rs", "a/", "the target would be \"a-ns/\", which is not a valid name"),
    ] {
        let refusal = checked(suffix, canonical).unwrap_err();
        assert!(refusal.starts_with(sentence), "{refusal}");
    }
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
        assert_eq!(&*names.target_key("cluster1/x"), "agent/x");
        for elsewhere in ["cluster1", "agent-2", "other"] {
            assert_eq!(names.canonical(Target, elsewhere, "x"), None);
        }
        assert_eq!(names.canonical(Target, "", "x"), Some(("", "x")));
        assert_eq!(&*names.target_key("/x"), "/x");
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
        assert_eq!(names.canonical(Target, "other-east", "x"), None, "{names:?}");
    }
}
