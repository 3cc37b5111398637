//! JSON of peers, parsed within a memory budget.

use std::{
    fmt,
    io::{self, BufReader, Read},
};

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Map, Number, Value};

use crate::memory::{Budget, VALUE, entry_cost, text_cost};

/// The value in `bytes`; `None` if it is not JSON, or costs more than `limit` bytes of memory.
pub fn parse(bytes: &[u8], limit: usize) -> Option<Value> {
    let budget = Budget::new(limit);
    let mut bytes = reader(bytes, &budget);
    let mut json = Deserializer::from_reader(&mut bytes);
    let value = Tree::any(&budget).deserialize(&mut json).ok()?;
    json.end().ok().filter(|()| !budget.is_exceeded()).map(|()| value)
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

/// An object of an API server, as far as it was read.
#[derive(Clone, Debug)]
pub enum Document {
    /// All of it, with its `managedFields` only if they were asked for.
    Whole(Value),
    /// The head of an object that costs more than its limit.
    TooLarge(Head),
}

/// The identity of an object, and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Empty where there is none, as in the other fields.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub version: String,
}

impl Document {
    pub fn name(&self) -> &str {
        match self {
            Self::Whole(object) => metadata(object, "name"),
            Self::TooLarge(head) => &head.name,
        }
    }

    pub fn version(&self) -> &str {
        match self {
            Self::Whole(object) => metadata(object, "resourceVersion"),
            Self::TooLarge(head) => &head.version,
        }
    }
}

impl Head {
    /// The head of an object of which perhaps nothing else was kept.
    fn of(object: &Value) -> Self {
        let text = |key| Some(metadata(object, key)).filter(|text| text.len() <= MAX_NAME);
        let [namespace, name, uid, version] =
            HEAD.map(|key| text(key).unwrap_or_default().to_owned());
        Self { namespace, name, uid, version }
    }
}

/// The fields of the metadata that make a [`Head`], in its order.
const HEAD: [&str; 4] = ["namespace", "name", "uid", "resourceVersion"];

fn metadata<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

/// A longer text cannot name an object (apimachinery `util/validation/validation.go`,
/// DNS1123SubdomainMaxLength).
pub(crate) const MAX_NAME: usize = 253;

/// Bytes that are counted for a budget. One type for all sources, so that there is one parser in the program.
pub type Bytes<'a> = BufReader<BudgetReader<'a>>;

pub struct BudgetReader<'a> {
    bytes: Box<dyn Read + 'a>,
    budget: &'a Budget,
}

/// Reads the bytes of a peer or of a file.
pub fn reader<'a>(bytes: impl Read + 'a, budget: &'a Budget) -> Bytes<'a> {
    // Small: a connection has a buffer of its own beneath.
    BufReader::with_capacity(1 << 10, BudgetReader { bytes: Box::new(bytes), budget })
}

impl Read for BudgetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.budget.read(count).map(|()| count).map_err(io::Error::other)
    }
}

/// The place of a value in an object of an API server.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Whether `metadata.managedFields` are kept: they are half of most objects.
    Root(bool),
    Metadata(bool),
    /// A field of the metadata that belongs to the [`Head`].
    Head,
    LeftOut,
    Elsewhere,
}

impl Place {
    /// The place of the value of `key` in a map at this place.
    fn of(self, key: &str) -> Self {
        match self {
            Self::Root(managed_fields) if key == "metadata" => Self::Metadata(managed_fields),
            Self::Metadata(false) if key == "managedFields" => Self::LeftOut,
            Self::Metadata(_) if HEAD.contains(&key) => Self::Head,
            _ => Self::Elsewhere,
        }
    }

    /// Returns whether the value is kept beyond the budget, too: the head is what names the object then.
    fn is_kept(self) -> bool {
        matches!(self, Self::Metadata(_) | Self::Head)
    }
}

/// Builds a value. Beyond the budget it builds nothing more but a head, and reads on.
pub struct Tree<'a> {
    budget: &'a Budget,
    place: Place,
}

impl<'a> Tree<'a> {
    pub fn any(budget: &'a Budget) -> Self {
        Self { budget, place: Place::Elsewhere }
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, any: D) -> Result<Value, D::Error> {
        match self.place {
            Place::Root(_) => any.deserialize_map(self),
            Place::Head => any.deserialize_str(self),
            Place::Elsewhere if self.budget.is_exceeded() => ignore(any),
            Place::LeftOut => ignore(any),
            Place::Metadata(_) | Place::Elsewhere => any.deserialize_any(self),
        }
    }
}

fn ignore<'de, D: de::Deserializer<'de>>(any: D) -> Result<Value, D::Error> {
    any.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null)
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.place {
            Place::Root(_) => "an object",
            Place::Head => "a text",
            _ => "any value",
        })
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
        let is_head = self.place == Place::Head && value.len() <= MAX_NAME;
        let is_kept = self.budget.charge(text_cost(value.len())) || is_head;
        Ok(if is_kept { value.into() } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Tree::any(self.budget))? {
            push(&mut list, item, self.budget);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let (budget, parent, mut map) = (self.budget, self.place, Map::new());
        while let Some((place, key)) =
            fields.next_key_seed(Key { budget, parent, entries: map.len() })?
        {
            let value = fields.next_value_seed(Tree { budget, place })?;
            if let Some(key) = key.filter(|_| place.is_kept() || !budget.is_exceeded()) {
                map.insert(key, value);
            }
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

/// The key of the next entry of a map that has `entries`, charged before it is copied; `None` if nothing is kept
/// of the entry. With it goes the place of its value.
struct Key<'a> {
    budget: &'a Budget,
    parent: Place,
    entries: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = (Place, Option<String>);

    fn deserialize<D: de::Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = (Place, Option<String>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let place = self.parent.of(key);
        if place == Place::LeftOut {
            return Ok((place, None));
        }
        let is_kept = self.budget.charge(entry_cost(self.entries))
            && self.budget.charge(text_cost(key.len()));
        Ok((place, (is_kept || place.is_kept()).then(|| key.to_owned())))
    }
}

/// Builds an object of an API server. An object that is too large leaves its head.
pub struct Object<'a> {
    pub budget: &'a Budget,
    pub managed_fields: bool,
}

impl<'a> Object<'a> {
    /// An object without its `managedFields`: few need them.
    pub fn new(budget: &'a Budget) -> Self {
        Self { budget, managed_fields: false }
    }
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Document;

    fn deserialize<D: de::Deserializer<'de>>(self, any: D) -> Result<Document, D::Error> {
        let Self { budget, managed_fields } = self;
        let object = Tree { budget, place: Place::Root(managed_fields) }.deserialize(any)?;
        Ok(match budget.is_exceeded() {
            true => Document::TooLarge(Head::of(&object)),
            false => Document::Whole(object),
        })
    }
}

#[cfg(test)]
mod tests;
