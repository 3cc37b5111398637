//! Difference that a write would make to a document, field by field: for people, who may not be meant to see the
//! values.

use std::fmt;

use apiclient::{
    error::{Error, Result},
    log_line::printable,
};
use serde_json::{Map, Value, json};

use crate::{
    model::discovery::ResourceArg,
    sync::{
        altered::{member, within},
        decide::SyncAction,
        observed::Observed,
        pair::PairContext,
    },
};

/// Fields that are listed; there may be thousands.
const MOST: usize = 20;
/// Characters of a value that are shown.
const LONGEST: usize = 120;

/// A field that a write would change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// As kubectl writes a JSONPath.
    path: String,
    old: Option<Value>,
    new: Option<Value>,
}

/// The fields in which `new` differs from `old`, at most [`MOST`]; lists count as a whole.
fn differences(old: &Value, new: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(Some(old), Some(new), &mut String::new(), &mut found);
    found
}

fn compare<'a>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    path: &mut String,
    found: &mut Vec<Difference>,
) {
    // A null is as good as nothing.
    let (old, new) = (old.filter(|old| !old.is_null()), new.filter(|new| !new.is_null()));
    if old == new || found.len() == MOST {
        return;
    }
    let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
    let keys =
        |value: Option<&'a Value>| value.and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let added = keys(new).filter(|key| old.is_none_or(|old| old.get(key).is_none()));
    let mut keys = keys(old).chain(added).peekable();
    if !is_map(old) || !is_map(new) || keys.peek().is_none() {
        let path = path.clone();
        return found.push(Difference { path, old: old.cloned(), new: new.cloned() });
    }
    for key in keys {
        let of = |value: Option<&'a Value>| value.and_then(|value| value.get(key));
        within(path, &member(key), |path| compare(of(old), of(new), path, found));
    }
}

impl Difference {
    /// With both values, unless they are `hidden`.
    pub(crate) fn in_full(&self, hidden: bool) -> String {
        let value = |value: &Option<Value>| match value {
            None => "nothing".to_owned(),
            Some(_) if hidden => "hidden".to_owned(),
            Some(value) => printable(&value.to_string(), LONGEST),
        };
        format!("{}: {} -> {}", self.path, value(&self.old), value(&self.new))
    }
}

/// Without values: logs go far.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match (&self.old, &self.new) {
            (None, _) => "add",
            (_, None) => "remove",
            _ => "change",
        };
        write!(f, "{verb} {}", self.path)
    }
}

/// Returns whether values of this kind are nobody's business.
pub(crate) fn hides_values(kind: &ResourceArg) -> bool {
    kind.group.is_empty() && kind.plural == "secrets"
}

impl PairContext<'_> {
    /// What an action would change on the clusters as they are; empty if it changes no document of the pair's, or if
    /// one of them is another by now.
    ///
    /// # Errors
    /// Those of reading a document that is not kept.
    pub(crate) fn differences(
        &self,
        action: SyncAction,
        observed: &Observed,
    ) -> Result<Vec<Difference>> {
        let Observed { source: Some(source), target: Some(target), .. } = observed else {
            return Ok(Vec::new());
        };
        let documents = || Ok((self.source_document(source)?, self.target_document(target)?));
        let wanted = matches!(action, SyncAction::UploadStatus | SyncAction::Update { .. });
        let (from, to) = match wanted.then(documents).transpose() {
            Ok(Some(documents)) => documents,
            Ok(None) | Err(Error::Conflict(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        Ok(match action {
            SyncAction::Update { content, .. } => {
                let desired = self.desired(&from, source);
                let updated = match self.context.settings.mode.replaces() {
                    true => desired.replaced(to.clone()),
                    false => desired.updated(&to, content),
                };
                differences(&to, &updated)
            }
            _ => differences(&json!({"status": from["status"]}), &json!({"status": to["status"]})),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_that_differs_is_named() {
        let old = json!({"spec": {"a": 1, "b": {"c": 2}, "list": [1, 2], "same": true}});
        let new = json!({"spec": {"a": 2, "list": [1], "same": true, "n.m/o": {"p": "x"}}});
        let found = differences(&old, &new);
        let words: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            ["change .spec.a", "remove .spec.b.c", "change .spec.list", "add .spec['n.m/o'].p"]
        );
        assert_eq!(found[0].in_full(false), ".spec.a: 1 -> 2");
        assert_eq!(found[1].in_full(true), ".spec.b.c: hidden -> nothing");
        assert_eq!(differences(&old, &old), []);
    }

    #[test]
    fn of_thousands_some_are_enough() {
        let many: Map<_, _> = (0..5000).map(|n| (n.to_string(), json!("x".repeat(500)))).collect();
        let found = differences(&json!({}), &Value::from(many));
        assert_eq!(found.len(), MOST);
        assert!(found[0].in_full(false).len() < 2 * LONGEST);
    }
}
