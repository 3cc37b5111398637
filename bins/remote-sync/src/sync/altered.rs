//! What a server did not keep of what was written: pure. Names of fields, never their values.

use serde_json::Value;

/// Fields that are named; there may be thousands.
const MOST: usize = 3;

/// The fields of `sent` that `kept` lacks or has with another value, in words. What a server adds is its own
/// business, and a null is as good as nothing (apiserver `pkg/apiserver/schema/defaulting/prune.go`).
pub(crate) fn altered(sent: &Value, kept: &Value) -> Option<String> {
    let mut fields = Vec::new();
    compare(sent, Some(kept), "", &mut fields);
    let more = if fields.len() > MOST { " and more" } else { "" };
    fields.truncate(MOST);
    (!fields.is_empty()).then(|| format!("the target's server {}{more}", fields.join(", ")))
}

fn compare(sent: &Value, kept: Option<&Value>, path: &str, fields: &mut Vec<String>) {
    match (sent, kept) {
        _ if fields.len() > MOST => {}
        (Value::Null, _) => {}
        (_, None) => fields.push(format!("dropped {path}")),
        (Value::Object(sent), Some(Value::Object(kept))) => {
            for (key, value) in sent {
                compare(value, kept.get(key), &format!("{path}{}", member(key)), fields);
            }
        }
        (Value::Array(sent), Some(Value::Array(kept))) if sent.len() == kept.len() => {
            for (index, (value, kept)) in sent.iter().zip(kept).enumerate() {
                compare(value, Some(kept), &format!("{path}[{index}]"), fields);
            }
        }
        (Value::Array(sent), Some(Value::Array(kept))) if is_among(sent, kept) => {}
        (sent, Some(kept)) if is_same(sent, kept) => {}
        (_, Some(_)) => fields.push(format!("changed {path}")),
    }
}

/// Returns whether the server only added items to a list, as webhooks that inject containers do.
fn is_among(sent: &[Value], kept: &[Value]) -> bool {
    let mut kept = kept.iter();
    sent.iter().all(|item| kept.any(|kept| altered(item, kept).is_none()))
}

/// Returns whether two values that hold no others are the same; 1 and 1.0 are.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|number| Some(number) == other.as_f64())
}

/// As kubectl writes a JSONPath: `.spec`, `['app.kubernetes.io/name']`.
fn member(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if key.chars().all(plain) { format!(".{key}") } else { format!("['{key}']") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_or_another_is_named() {
        for (sent, kept, expected) in [
            (
                json!({"spec": {"a": 1, "b": {"c": 2}}}),
                json!({"spec": {"a": 1}}),
                "dropped .spec.b",
            ),
            (json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}), "changed .spec.a"),
            (json!({"spec": {"a": {}}}), json!({"spec": {}}), "dropped .spec.a"),
            (json!({"spec": {"a": false}}), json!({"spec": {}}), "dropped .spec.a"),
            (json!({"spec": {"a": {"b": 1}}}), json!({"spec": {"a": "text"}}), "changed .spec.a"),
            (
                json!({"spec": [{"a": 1, "b": 2}]}),
                json!({"spec": [{"a": 1}]}),
                "dropped .spec[0].b",
            ),
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
}
