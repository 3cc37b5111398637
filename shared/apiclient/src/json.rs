//! JSON of peers, parsed within a memory budget.

mod key;

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read},
};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, de::IoRead};

use crate::memory::{Budget, VALUE, entry_cost, text_cost};

use self::key::{Field, Key};

/// The value in `bytes`, which may cost at most `limit` bytes of memory.
pub fn parse(bytes: &[u8], limit: usize) -> Result<Value, JsonError> {
    let budget = Budget::new(limit);
    let mut bytes = Bytes::new(bytes, &budget);
    let mut json = bytes.json();
    let value = Tree(&budget).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    match value {
        Ok(_) if budget.is_exceeded() => Err(JsonError::TooLarge),
        value => value.map_err(|_| JsonError::Syntax),
    }
}

/// The cost of a value in memory, in bytes, as it was charged when it was read.
pub fn cost(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text_cost(text.len()),
        Value::Array(items) => {
            let room = if items.is_empty() { 0 } else { items.len().next_power_of_two().max(4) };
            room * VALUE + items.iter().map(cost).sum::<usize>()
        }
        Value::Object(map) => {
            let entries = (0..map.len()).map(entry_cost).sum::<usize>();
            entries
                + map.iter().map(|(key, value)| text_cost(key.len()) + cost(value)).sum::<usize>()
        }
    }
}

/// The reason why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// Not JSON.
    Syntax,
    /// It needs more memory than its limit.
    TooLarge,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "not JSON",
            Self::TooLarge => "JSON that needs too much memory",
        })
    }
}

/// An object of an API server, as far as it was read.
#[derive(Clone, Debug)]
pub enum Document {
    /// All of it except its `managedFields`, which are half of most objects and not needed here.
    Whole(Value),
    /// The head of an object that costs more than its limit.
    TooLarge(Head),
}

/// The identity of an object, and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Empty where there is none, as in the other fields.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub version: String,
}

impl Document {
    /// The name of the object.
    pub fn name(&self) -> &str {
        match self {
            Self::Whole(object) => object["metadata"]["name"].as_str().unwrap_or_default(),
            Self::TooLarge(head) => &head.name,
        }
    }

    /// The resourceVersion of the object.
    pub fn version(&self) -> &str {
        match self {
            Self::Whole(object) => {
                object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
            }
            Self::TooLarge(head) => &head.version,
        }
    }
}

/// A longer text cannot name an object (apimachinery `util/validation/validation.go`,
/// DNS1123SubdomainMaxLength).
const MAX_NAME: usize = 253;

/// Bytes that are counted for a budget. One type for all sources, so that there is one parser in the program.
pub struct Bytes<'a>(BufReader<Counted<'a>>);

struct Counted<'a> {
    bytes: Box<dyn Read + 'a>,
    budget: &'a Budget,
}

impl<'a> Bytes<'a> {
    /// Bytes of a peer or of a file.
    pub fn new(bytes: impl Read + 'a, budget: &'a Budget) -> Self {
        let counted = Counted { bytes: Box::new(bytes), budget };
        // Small: a connection has a buffer of its own beneath.
        Self(BufReader::with_capacity(1 << 10, counted))
    }

    /// A parser of the next document.
    pub fn json(&mut self) -> serde_json::Deserializer<IoRead<&mut Self>> {
        serde_json::Deserializer::from_reader(self)
    }
}

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl BufRead for Bytes<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.budget.read(count).map(|()| count).map_err(io::Error::other)
    }
}

/// Builds any value. Beyond the budget it builds nothing more, but reads on.
pub struct Tree<'a>(pub &'a Budget);

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, any: D) -> Result<Value, D::Error> {
        if self.0.is_exceeded() {
            return any.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null);
        }
        any.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(if self.0.charge_text(value.len()) { value.into() } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Tree(self.0))? {
            push(&mut list, item, self.0);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let (budget, mut map) = (self.0, Map::new());
        while let Some((_, key)) = fields.next_key_seed(Key { budget, entries: map.len() })? {
            insert(&mut map, key, fields.next_value_seed(Tree(budget))?, budget);
        }
        Ok(Value::Object(map))
    }
}

/// Appends `item`, if there is room for it.
fn push(list: &mut Vec<Value>, item: Value, budget: &Budget) {
    let growth = if list.len() < list.capacity() { 0 } else { list.capacity().max(4) };
    if budget.charge(growth * VALUE) {
        list.push(item);
    }
}

/// Inserts an entry whose key was charged already, if there is room for it.
fn insert(map: &mut Map<String, Value>, key: Option<String>, value: Value, budget: &Budget) {
    if let Some(key) = key.filter(|_| !budget.is_exceeded()) {
        map.insert(key, value);
    }
}

/// Builds an object of an API server. An object that is too large leaves its head.
pub struct Object<'a>(pub &'a Budget);

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, any: D) -> Result<Document, D::Error> {
        let mut head = Head::default();
        let object =
            any.deserialize_map(Fields { budget: self.0, head: &mut head, nested: false })?;
        Ok(match self.0.is_exceeded() {
            true => Document::TooLarge(head),
            false => Document::Whole(object),
        })
    }
}

/// The fields of the object itself, or of its metadata.
struct Fields<'a> {
    budget: &'a Budget,
    head: &'a mut Head,
    nested: bool,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, any: D) -> Result<Value, D::Error> {
        any.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let Self { budget, head, nested } = self;
        let mut map = Map::new();
        while let Some((field, key)) = fields.next_key_seed(Key { budget, entries: map.len() })? {
            let text = match (nested, field) {
                (false, Field::Metadata) => {
                    let metadata = Fields { budget, head, nested: true };
                    insert(&mut map, key, fields.next_value_seed(metadata)?, budget);
                    continue;
                }
                (true, Field::ManagedFields) => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                (true, Field::Namespace) => &mut head.namespace,
                (true, Field::Name) => &mut head.name,
                (true, Field::Uid) => &mut head.uid,
                (true, Field::ResourceVersion) => &mut head.version,
                _ => {
                    insert(&mut map, key, fields.next_value_seed(Tree(budget))?, budget);
                    continue;
                }
            };
            insert(&mut map, key, fields.next_value_seed(Text { budget, text })?, budget);
        }
        Ok(Value::Object(map))
    }
}

/// A text of the head.
struct Text<'a> {
    budget: &'a Budget,
    text: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Value, D::Error> {
        text.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        if value.len() <= MAX_NAME {
            value.clone_into(self.text);
        }
        Tree(self.budget).visit_str(value)
    }
}

#[cfg(test)]
mod tests;
