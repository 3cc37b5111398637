//! Content digests of 64 bits, independent of the order of members. They exist in memory only: another version may
//! compute other ones.
//!
//! They are the first half of a SHA-256. Two contents with the same digest take 2^32 attempts to find, and harm only
//! their author: the change from one to the other is not copied. Matching another author's digest takes 2^64, and so
//! does an accident.

use std::io::{self, Write};

use ring::digest::{Context, SHA256};
use serde_json::{Map, Value};

/// The digest of zero members.
pub const NOTHING: u64 = 0;

pub fn of(value: &Value) -> u64 {
    let mut hasher = Hasher(Context::new(&SHA256));
    hasher.write_json(value);
    hasher.finish()
}

pub fn of_text(text: &str) -> u64 {
    of(&text.into())
}

/// The digest of the members that `keep` accepts.
pub fn of_members(members: Option<&Map<String, Value>>, keep: impl Fn(&str) -> bool) -> u64 {
    let (mut hasher, mut any) = (Hasher(Context::new(&SHA256)), false);
    for (key, value) in members.into_iter().flatten().filter(|(key, _)| keep(key)) {
        any = true;
        hasher.write_json(&key.as_str().into());
        hasher.write_json(value);
    }
    if any { hasher.finish() } else { NOTHING }
}

/// SHA-256 of JSON texts. serde_json keeps maps in key order.
struct Hasher(Context);

impl Hasher {
    fn write_json(&mut self, value: &Value) {
        // Writing to a hasher cannot fail.
        let _ = write!(self, "{value}");
    }

    fn finish(self) -> u64 {
        let digest = self.0.finish();
        digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digests_differ_where_contents_do() {
        let parse = |text| of(&serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(parse(r#"{"a": 1, "b": [1.5, -3]}"#), parse(r#"{"b":[15e-1,-3],"a":1}"#));
        let different = [
            json!({}),
            json!({"a": {}}),
            json!({"a": null}),
            json!({"a": []}),
            json!({"a": ""}),
            json!({"a": 0}),
            json!({"a": false}),
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
