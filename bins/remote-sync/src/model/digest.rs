//! Content digests of 64 bits: equal for equal content, whatever the order of members and the notation of whole
//! numbers. They live in memory alone, so that another version may compute others.
//!
//! They are the first half of a SHA-256. Two contents that share a digest take 2^32 attempts to find, and harm
//! nobody but their author: the change from one to the other is not copied. Content with the digest of somebody
//! else's takes 2^64, and so does an accident.

use ring::digest::{Context, SHA256};
use serde_json::{Map, Value};

/// The digest of no members at all.
pub const NOTHING: u64 = 0;

pub fn of(value: &Value) -> u64 {
    let mut hasher = Hasher::new();
    hasher.write(value);
    hasher.finish()
}

pub fn of_text(text: &str) -> u64 {
    let mut hasher = Hasher::new();
    hasher.write_text(text);
    hasher.finish()
}

/// The digest of the members that `keep` accepts.
pub fn of_members(members: Option<&Map<String, Value>>, keep: impl Fn(&str) -> bool) -> u64 {
    let (mut hasher, mut any) = (Hasher::new(), false);
    for (key, value) in members.into_iter().flatten().filter(|(key, _)| keep(key)) {
        any = true;
        hasher.write_text(key);
        hasher.write(value);
    }
    if any { hasher.finish() } else { NOTHING }
}

/// A SHA-256 of values. Each kind of value starts with its own byte, and anything with a length with that length.
/// Maps are in key order, as serde_json keeps them.
struct Hasher(Context);

impl Hasher {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn write(&mut self, value: &Value) {
        match value {
            Value::Null => self.write_tag(0),
            Value::Bool(value) => self.write_tag(1 + u8::from(*value)),
            Value::Number(number) => {
                // 1, 1.0 and 1e0 are the same number.
                match number.as_i64().or_else(|| number.as_f64().and_then(whole)) {
                    Some(whole) => self.write_number(3, whole as u64),
                    None => {
                        self.write_tag(4);
                        self.write_text(&number.to_string());
                    }
                }
            }
            Value::String(text) => {
                self.write_tag(5);
                self.write_text(text);
            }
            Value::Array(items) => {
                self.write_number(6, items.len() as u64);
                items.iter().for_each(|item| self.write(item));
            }
            Value::Object(members) => {
                self.write_number(7, members.len() as u64);
                for (key, value) in members {
                    self.write_text(key);
                    self.write(value);
                }
            }
        }
    }

    fn write_tag(&mut self, tag: u8) {
        self.0.update(&[tag]);
    }

    fn write_number(&mut self, tag: u8, number: u64) {
        self.write_tag(tag);
        self.0.update(&number.to_le_bytes());
    }

    fn write_text(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    fn finish(self) -> u64 {
        let digest = self.0.finish();
        digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// The integer that a double holds, within the range where every integer has a double.
fn whole(real: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (real.fract() == 0.0 && real.abs() <= EXACT).then_some(real as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_is_equal_whatever_its_spelling() {
        let parse = |text| of(&serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(parse(r#"{"a": 1, "b": [1.5, -3]}"#), parse(r#"{"b":[15e-1,-3.0],"a":1e0}"#));
        assert_eq!(of_text("x"), of_text("x"));
        assert_eq!(of(&json!(-0.0)), of(&json!(0)));
    }

    #[test]
    fn empty_null_and_absent_are_three_things() {
        let different = [
            json!({}),
            json!({"a": {}}),
            json!({"a": null}),
            json!({"a": []}),
            json!({"a": ""}),
            json!({"a": 0}),
            json!({"a": false}),
            json!({"a": true}),
            json!({"a": 1}),
            json!({"a": -1}),
            json!({"a": 1.5}),
            json!({"a": u64::MAX}),
            json!({"a": 1.8446744073709552e19}),
            json!({"a": "0"}),
            json!([["a"], []]),
            json!([["a", []]]),
        ];
        let digests: std::collections::BTreeSet<_> = different.iter().map(of).collect();
        assert_eq!(digests.len(), different.len());
    }

    #[test]
    fn members_that_nobody_wants_do_not_count() {
        let (all, some) = (json!({"a": "1", "x/b": "2"}), json!({"a": "1"}));
        let of = |value: &Value| of_members(value.as_object(), |key| !key.contains('/'));
        assert_eq!(of(&all), of(&some));
        assert_eq!([of(&Value::Null), of(&json!({})), of(&json!({"x/b": "2"}))], [NOTHING; 3]);
    }
}
