//! JSON of peers, parsed within a memory budget.

mod tree;

use std::io::{self, BufReader, Read};

use serde::de::DeserializeSeed;
use serde_json::{Deserializer, Map, Value, json};

use self::tree::{Position, Tree};
use crate::memory::{Budget, VALUE, entry_cost, text_cost};

/// The value in `bytes`; `None` if it is not JSON, or costs more than `limit` bytes of memory.
pub fn parse(bytes: &[u8], limit: usize) -> Option<Value> {
    let budget = Budget::new(limit);
    let value = read(&mut reader(bytes, &budget), Tree::any(&budget)).ok()?;
    (!budget.is_exceeded()).then_some(value)
}

/// The cost of a value in memory, in bytes. Its reader was also charged for what it left out.
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

/// An object of an API server, as far as it was read.
#[derive(Clone, Debug)]
pub enum Document {
    /// All of it, with its `managedFields` only if they were asked for.
    Whole(Value),
    /// Of an object that costs more than its limit, the names, uid and version in its metadata.
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

/// The fields of the metadata that identify an object, and its version.
const HEAD: [&str; 4] = ["namespace", "name", "uid", "resourceVersion"];

fn metadata<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

/// A longer text cannot name an object (apimachinery `util/validation/validation.go`,
/// DNS1123SubdomainMaxLength).
pub(crate) const MAX_NAME: usize = 253;

/// Bytes that are counted for a budget. One type for all sources, so that there is one parser in the program.
pub(crate) type Bytes<'a> = BufReader<BudgetReader<'a>>;

pub(crate) struct BudgetReader<'a> {
    bytes: Box<dyn Read + 'a>,
    budget: &'a Budget,
}

/// Reads the bytes of a peer or of a file.
pub(crate) fn reader<'a>(bytes: impl Read + 'a, budget: &'a Budget) -> Bytes<'a> {
    // Small: a connection has a buffer of its own beneath.
    BufReader::with_capacity(1 << 10, BudgetReader { bytes: Box::new(bytes), budget })
}

impl Read for BudgetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.budget.read(count).map(|()| count)
    }
}

/// The next object; of an object that is too large, its head.
pub(crate) fn object(
    bytes: &mut Bytes<'_>,
    budget: &Budget,
    managed_fields: bool,
) -> serde_json::Result<Document> {
    let object = read(bytes, Tree { place: Position::Root(managed_fields), ..Tree::any(budget) })?;
    Ok(Document::new(object, budget))
}

/// A list without its items, which go to `each` one by one until it returns `false`: an error.
pub(crate) fn list(
    bytes: &mut Bytes<'_>,
    budget: &Budget,
    each: &dyn Fn(Document) -> bool,
) -> serde_json::Result<Value> {
    read(bytes, Tree { place: Position::List, each, ..Tree::any(budget) })
}

/// The type of the next event of a watch, and its object: null if it has none.
pub(crate) fn event(
    bytes: &mut Bytes<'_>,
    budget: &Budget,
) -> serde_json::Result<(Value, Document)> {
    // More events follow.
    let mut json = Deserializer::from_reader(bytes);
    let mut event = Tree { place: Position::Event, ..Tree::any(budget) }.deserialize(&mut json)?;
    let [kind, object] = ["type", "object"].map(|key| event[key].take());
    Ok((kind, Document::new(object, budget)))
}

/// Reads to the very end, so that the connection can be kept.
fn read(bytes: &mut Bytes<'_>, tree: Tree<'_>) -> serde_json::Result<Value> {
    let mut json = Deserializer::from_reader(bytes);
    let value = tree.deserialize(&mut json)?;
    json.end().map(|()| value)
}

#[cfg(test)]
mod tests;
