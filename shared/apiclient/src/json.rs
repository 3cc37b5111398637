//! JSON from peers, parsed within a memory budget.

mod tree;

use std::io::{self, BufReader, Read};

use serde::de::DeserializeSeed;
use serde_json::{Deserializer, Map, Value, json};

use self::tree::{Position, Tree};
use crate::memory::{Budget, VALUE, entry_cost, text_cost};

/// Parses `bytes`; `None` if they are not JSON, or exceed `limit` bytes of memory.
pub fn parse(bytes: &[u8], limit: usize) -> Option<Value> {
    let budget = Budget::new(limit);
    let value = read(&mut reader(bytes, &budget), Tree::any(&budget)).ok()?;
    (!budget.is_exceeded()).then_some(value)
}

/// The memory that a value occupies, in bytes. Parsing also charged for what it dropped.
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

/// An object from an API server, whole or in part.
#[derive(Clone, Debug)]
pub enum Document {
    /// The whole object; `managedFields` only if requested.
    Whole(Value),
    /// Names, uid and resourceVersion of an object that exceeds its limit.
    TooLarge(Value),
}

impl Document {
    fn new(object: Value, budget: &Budget) -> Self {
        match budget.is_exceeded() {
            true => Self::TooLarge(head(&object)),
            false => Self::Whole(object),
        }
    }

    pub fn object(&self) -> &Value {
        match self {
            Self::Whole(object) | Self::TooLarge(object) => object,
        }
    }

    pub fn name(&self) -> &str {
        metadata(self.object(), "name")
    }

    pub fn version(&self) -> &str {
        metadata(self.object(), "resourceVersion")
    }
}

fn head(object: &Value) -> Value {
    let fields = HEAD.map(|key| (key, metadata(object, key))).into_iter();
    let named = fields.filter(|(_, text)| (1..=MAX_NAME).contains(&text.len()));
    let head = named.map(|(key, text)| (key.to_owned(), text.into()));
    json!({"metadata": head.collect::<Map<_, _>>()})
}

/// The metadata fields that identify an object and its version.
const HEAD: [&str; 4] = ["namespace", "name", "uid", "resourceVersion"];

fn metadata<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

/// The longest name of an object (apimachinery `util/validation/validation.go`,
/// DNS1123SubdomainMaxLength).
pub(crate) const MAX_NAME: usize = 253;

/// Bytes that count for a budget. One type for all sources keeps one copy of the parser in a program.
pub(crate) type Bytes<'a> = BufReader<BudgetReader<'a>>;

pub(crate) struct BudgetReader<'a> {
    bytes: Box<dyn Read + 'a>,
    budget: &'a Budget,
}

/// Wraps `bytes`, so that reading charges `budget`.
pub(crate) fn reader<'a>(bytes: impl Read + 'a, budget: &'a Budget) -> Bytes<'a> {
    // Small: the connection has its own buffer.
    BufReader::with_capacity(1 << 10, BudgetReader { bytes: Box::new(bytes), budget })
}

impl Read for BudgetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.budget.read(count).map(|()| count)
    }
}

/// Parses an object.
pub(crate) fn object(
    bytes: &mut Bytes<'_>,
    budget: &Budget,
    managed_fields: bool,
) -> serde_json::Result<Document> {
    let object = read(bytes, Tree { place: Position::Root(managed_fields), ..Tree::any(budget) })?;
    Ok(Document::new(object, budget))
}

/// Parses a list, and passes its items to `each`, one by one. It is an error if `each` returns `false`.
pub(crate) fn list(
    bytes: &mut Bytes<'_>,
    budget: &Budget,
    each: &dyn Fn(Document) -> bool,
) -> serde_json::Result<Value> {
    read(bytes, Tree { place: Position::List, each, ..Tree::any(budget) })
}

/// Parses the next event of a watch: its type, and its object or null.
pub(crate) fn event(
    bytes: &mut Bytes<'_>,
    budget: &Budget,
) -> serde_json::Result<(Value, Document)> {
    // Without `end`: more events follow.
    let mut json = Deserializer::from_reader(bytes);
    let mut event = Tree { place: Position::Event, ..Tree::any(budget) }.deserialize(&mut json)?;
    let [kind, object] = ["type", "object"].map(|key| event[key].take());
    Ok((kind, Document::new(object, budget)))
}

/// Parses to the end of `bytes`, so that the connection can be reused.
fn read(bytes: &mut Bytes<'_>, tree: Tree<'_>) -> serde_json::Result<Value> {
    let mut json = Deserializer::from_reader(bytes);
    let value = tree.deserialize(&mut json)?;
    json.end().map(|()| value)
}

#[cfg(test)]
mod tests;
