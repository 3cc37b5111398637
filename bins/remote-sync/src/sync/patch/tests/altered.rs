//! What a server did not keep.

use super::*;

#[test]
fn what_is_missing_or_another_is_named() {
    for (sent, kept, expected) in [
        (json!({"spec": {"a": 1, "b": {"c": 2}}}), json!({"spec": {"a": 1}}), "dropped .spec.b"),
        (json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}), "changed .spec.a"),
        (json!({"spec": {"a": {}}}), json!({"spec": {}}), "dropped .spec.a"),
        (json!({"spec": {"a": false}}), json!({"spec": {}}), "dropped .spec.a"),
        (json!({"spec": {"a": {"b": 1}}}), json!({"spec": {"a": "text"}}), "changed .spec.a"),
        (json!({"spec": [{"a": 1, "b": 2}]}), json!({"spec": [{"a": 1}]}), "dropped .spec[0].b"),
        (json!({"spec": [1, 2]}), json!({"spec": [1]}), "changed .spec"),
        (json!({"spec": [1, 2]}), json!({"spec": [2, 1, 3]}), "changed .spec"),
        (
            json!({"metadata": {"labels": {"a.b/c": "1", "d": "2"}}}),
            json!({"metadata": {"labels": {"d": "3"}}}),
            "dropped .metadata.labels['a.b/c'], changed .metadata.labels.d",
        ),
        (
            json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}),
            json!({}),
            "dropped .a, dropped .b, dropped .c and more",
        ),
    ] {
        assert_eq!(altered(&sent, &kept), Some(format!("the target's server {expected}")));
    }
}

#[test]
fn what_is_added_is_the_server_s_business() {
    let sent = json!({"spec": {"a": 1, "list": [{"x": 1}, {"y": 2}], "none": null, "n": 2.0}});
    let kept = json!({"spec": {"a": 1, "b": 2, "n": 2,
        "list": [{"i": 0}, {"x": 1, "d": true}, {"y": 2}]}, "status": {}});
    assert_eq!(altered(&sent, &kept), None);
    assert_eq!(altered(&json!({}), &kept), None);
    assert_eq!(altered(&sent, &sent), None);
}
