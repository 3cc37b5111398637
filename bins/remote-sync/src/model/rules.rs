//! Field rules from flags: fields of the target that the source does not control.

use serde_json::{Map, Value};

/// Returns whether the top-level field `key` is copied from source to target.
pub fn is_content(key: &str) -> bool {
    !matches!(key, "apiVersion" | "kind" | "metadata" | "status")
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldRules {
    /// Fields that the target's own controllers set (`-ignore-field`). They are set on creation, then neither written
    /// nor compared.
    pub ignored: Vec<FieldPath>,
}

impl FieldRules {
    /// The content without the ignored fields, and without parents that become empty: the owner of a field may have
    /// created them.
    pub fn without_ignored(&self, mut content: Map<String, Value>) -> Map<String, Value> {
        self.ignored.iter().for_each(|field| remove(&mut content, &field.0));
        content
    }

    /// The source's content with the target's values of the ignored fields.
    pub fn merged(&self, mut content: Map<String, Value>, target: &Value) -> Map<String, Value> {
        for FieldPath(path) in &self.ignored {
            let Some((key, parents)) = path.split_last() else { continue };
            let mut parents = parents.iter();
            let parent = parents
                .try_fold(&mut content, |members, key| members.get_mut(key)?.as_object_mut());
            parent.and_then(|members| members.remove(key));
            let kept = path.iter().try_fold(target, |value, key| value.as_object()?.get(key));
            if let Some(kept) = kept {
                insert(&mut content, path, kept);
            }
        }
        content
    }
}

fn remove(members: &mut Map<String, Value>, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    let emptied = match members.get_mut(key) {
        _ if rest.is_empty() => true,
        Some(Value::Object(inner)) => {
            remove(inner, rest);
            inner.is_empty()
        }
        _ => false,
    };
    if emptied {
        members.remove(key);
    }
}

/// Inserts a value, unless a parent is not an object.
fn insert(members: &mut Map<String, Value>, path: &[String], value: &Value) {
    let Some((key, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        members.insert(key.clone(), value.clone());
        return;
    }
    let inner = members.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(inner) = inner {
        insert(inner, rest, value);
    }
}

/// The path of a field: a JSON pointer (RFC 6901) through objects. It cannot enter a list, whose items have no stable
/// names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// Parses a pointer to content; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let keys: Vec<_> =
            text.strip_prefix('/')?.split('/').map(unescaped).collect::<Option<_>>()?;
        let first: &str = keys.first()?;
        (is_content(first) && keys.iter().all(|key| !key.is_empty())).then_some(Self(keys))
    }
}

/// `~1` is a slash and `~0` a tilde; no other escape exists.
fn unescaped(key: &str) -> Option<String> {
    let sound = key.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    sound.then(|| key.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(pointers: &[&str]) -> FieldRules {
        let ignored = pointers.iter().map(|text| FieldPath::parse(text).unwrap()).collect();
        FieldRules { ignored }
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn pointers_lead_to_content_alone() {
        let path = |text| FieldPath::parse(text).map(|path| path.0);
        assert_eq!(path("/spec/replicas").unwrap(), ["spec", "replicas"]);
        assert_eq!(path("/operation").unwrap(), ["operation"]);
        assert_eq!(path("/data/a~1b~0c~01").unwrap(), ["data", "a/b~c~1"]);
        for bad in [
            "",
            "spec",
            "/spec/",
            "/metadata/labels",
            "/status/x",
            "/apiVersion",
            "/spec/~",
            "/spec/~2",
        ] {
            assert_eq!(path(bad), None, "{bad}");
        }
    }

    #[test]
    fn ignored_fields_and_their_empty_parents_do_not_count() {
        let rules = rules(&["/spec/replicas", "/spec/a/b", "/operation"]);
        let left = |content: Value| Value::Object(rules.without_ignored(map(content)));
        assert_eq!(
            left(json!({"spec": {"replicas": 1, "x": 2, "a": {"b": 1, "c": 2}}, "operation": {}})),
            json!({"spec": {"x": 2, "a": {"c": 2}}})
        );
        for none in [
            json!({}),
            json!({"spec": {}}),
            json!({"spec": {"replicas": 3}}),
            json!({"spec": {"a": {"b": 1}}}),
        ] {
            assert_eq!(left(none), json!({}));
        }
        let list = json!({"spec": [{"replicas": 1}]});
        assert_eq!(left(list.clone()), list, "a path does not lead into a list");
    }

    #[test]
    fn an_update_keeps_ignored_fields_without_their_parents() {
        let rules = rules(&["/spec/replicas", "/spec/a/b"]);
        for (source, target, expected) in [
            (
                json!({"spec": {"replicas": 1, "x": 1}}),
                json!({"spec": {"replicas": 7, "y": 1}}),
                json!({"spec": {"replicas": 7, "x": 1}}),
            ),
            (
                json!({"spec": {"replicas": 1, "x": 1}}),
                json!({"spec": {"y": 1}}),
                json!({"spec": {"x": 1}}),
            ),
            (json!({}), json!({"spec": {"replicas": 7, "y": 1}}), json!({"spec": {"replicas": 7}})),
            (
                json!({"data": {}}),
                json!({"spec": {"a": {"b": 2, "c": 3}}}),
                json!({"data": {}, "spec": {"a": {"b": 2}}}),
            ),
            (json!({"spec": {"a": {}}}), json!({}), json!({"spec": {"a": {}}})),
            (json!({"spec": {"a": {"b": 1}}}), json!({}), json!({"spec": {"a": {}}})),
            (
                json!({"spec": {"a": "text"}}),
                json!({"spec": {"a": {"b": 2}}}),
                json!({"spec": {"a": "text"}}),
            ),
        ] {
            let merged = Value::Object(rules.merged(map(source.clone()), &target));
            assert_eq!(merged, expected, "{source} {target}");
        }
    }
}
