//! Content digests of 64 bits: equal for equal content, whatever the order of members and the notation of
//! numbers.
//!
//! The hash key is random in each process and digests are never written anywhere, so nobody can craft a
//! collision; an accidental one takes 2^64 comparisons.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash, Hasher},
};

use serde_json::{Map, Value};

/// Computes digests; those of two digesters cannot be compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digester(RandomState);

impl Digester {
    /// The digest of no members at all.
    pub(crate) const NOTHING: u64 = 0;

    pub(crate) fn of(&self, value: &Value) -> u64 {
        let mut hasher = self.0.build_hasher();
        write(value, &mut hasher);
        hasher.finish()
    }

    pub(crate) fn of_text(&self, text: &str) -> u64 {
        self.0.hash_one(text)
    }

    /// The digest of the members that `keep` accepts.
    pub(crate) fn of_members(
        &self,
        members: Option<&Map<String, Value>>,
        keep: impl Fn(&str) -> bool,
    ) -> u64 {
        let (mut hasher, mut any) = (self.0.build_hasher(), false);
        for (key, value) in members.into_iter().flatten().filter(|(key, _)| keep(key)) {
            any = true;
            key.hash(&mut hasher);
            write(value, &mut hasher);
        }
        if any { hasher.finish() } else { Self::NOTHING }
    }
}

/// Each kind of value starts with its own byte, and anything with a length with that length. Maps are in key
/// order, as serde_json keeps them.
fn write(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(value) => hasher.write_u8(1 + u8::from(*value)),
        Value::Number(number) => {
            hasher.write_u8(3);
            // 1, 1.0 and 1e0 are the same number; a number that does not fit a double is hashed as it is written.
            match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(whole), ..) => whole.hash(hasher),
                (_, Some(whole), _) => whole.hash(hasher),
                (.., Some(real)) => match whole(real) {
                    Some(whole) => whole.hash(hasher),
                    None => real.to_bits().hash(hasher),
                },
                _ => number.to_string().hash(hasher),
            }
        }
        Value::String(text) => {
            hasher.write_u8(4);
            text.hash(hasher);
        }
        Value::Array(items) => {
            hasher.write_u8(5);
            hasher.write_usize(items.len());
            items.iter().for_each(|item| write(item, hasher));
        }
        Value::Object(members) => {
            hasher.write_u8(6);
            hasher.write_usize(members.len());
            for (key, value) in members {
                key.hash(hasher);
                write(value, hasher);
            }
        }
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
        let digester = Digester::default();
        let parse = |text| digester.of(&serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(parse(r#"{"a": 1, "b": [1.5, -3]}"#), parse(r#"{"b":[15e-1,-3.0],"a":1e0}"#));
        assert_eq!(digester.of_text("x"), digester.of_text("x"));
        assert_ne!(digester.of(&json!(1)), Digester::default().of(&json!(1)), "keyed");
    }

    #[test]
    fn gap27_empty_null_and_absent_are_three_things() {
        let digester = Digester::default();
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
        let digests: std::collections::BTreeSet<_> =
            different.iter().map(|value| digester.of(value)).collect();
        assert_eq!(digests.len(), different.len());
    }

    #[test]
    fn members_that_nobody_wants_do_not_count() {
        let digester = Digester::default();
        let (all, some) = (json!({"a": "1", "x/b": "2"}), json!({"a": "1"}));
        let of = |value: &Value| digester.of_members(value.as_object(), |key| !key.contains('/'));
        assert_eq!(of(&all), of(&some));
        assert_eq!(of(&Value::Null), of(&json!({})));
    }
}
