//! Builds values within a memory budget. It knows the shapes of events, lists and objects.

use std::fmt;

use serde::de::{self, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Document, HEAD, MAX_NAME};
use crate::memory::{Budget, VALUE, entry_cost, text_cost};

/// The position of a value in an event, a list or an object.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Position {
    /// An event of a watch: its type and its object.
    Event,
    /// A list: its kind, its metadata and its items.
    List,
    Items,
    /// An object, and whether to keep its `metadata.managedFields`, which are half of most objects.
    Root(bool),
    Metadata(bool),
    /// A field of the metadata that belongs to the [`HEAD`], the type of an event, or the kind of a list.
    Head,
    LeftOut,
    Elsewhere,
}

impl Position {
    /// The position of the value of `key` in a map at this position.
    fn of(self, key: &str) -> Self {
        match self {
            Self::Event => match key {
                "type" => Self::Head,
                "object" => Self::Root(false),
                _ => Self::LeftOut,
            },
            Self::List => match key {
                "kind" => Self::Head,
                "metadata" => Self::Elsewhere,
                "items" => Self::Items,
                _ => Self::LeftOut,
            },
            Self::Root(managed_fields) if key == "metadata" => Self::Metadata(managed_fields),
            Self::Metadata(false) if key == "managedFields" => Self::LeftOut,
            Self::Metadata(_) if HEAD.contains(&key) => Self::Head,
            _ => Self::Elsewhere,
        }
    }

    /// Returns whether the value is kept even beyond the budget, to name the object.
    fn is_kept(self) -> bool {
        matches!(self, Self::Root(_) | Self::Metadata(_) | Self::Head)
    }
}

/// Builds a value. Beyond the budget, it keeps only the head and skips the rest.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    pub(super) budget: &'a Budget,
    pub(super) place: Position,
    /// Receives the items of a list; `false` aborts it.
    pub(super) each: &'a dyn Fn(Document) -> bool,
}

impl<'a> Tree<'a> {
    pub(super) fn any(budget: &'a Budget) -> Self {
        Self { budget, place: Position::Elsewhere, each: &|_| true }
    }

    fn at(self, place: Position) -> Self {
        Self { place, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, any: D) -> Result<Value, D::Error> {
        match self.place {
            Position::Event | Position::List | Position::Root(_) => any.deserialize_map(self),
            // An item without a readable name must fail the list: its object would seem to be absent.
            Position::Head => any.deserialize_str(self),
            Position::Elsewhere if !self.budget.is_exceeded() => any.deserialize_any(self),
            Position::Items | Position::Metadata(_) => any.deserialize_any(self),
            Position::Elsewhere | Position::LeftOut => {
                any.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null)
            }
        }
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, a text in its head, or any value in one")
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
        let is_head = self.place == Position::Head && value.len() <= MAX_NAME;
        let is_kept = self.budget.charge(text_cost(value.len())) || is_head;
        Ok(if is_kept { value.into() } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        if self.place == Position::Items {
            self.hand_over(items)?;
        } else {
            while let Some(item) = items.next_element_seed(self.at(Position::Elsewhere))? {
                push(&mut list, item, self.budget);
            }
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let (budget, mut map) = (self.budget, Map::new());
        // Beyond the budget, only short keys are read: one may belong to the head.
        while let Some(key) = fields.next_key_seed(self.at(Position::Head))? {
            let key = if let Value::String(key) = key { key } else { String::new() };
            let place = self.place.of(&key);
            if place != Position::LeftOut && !self.is_envelope() {
                budget.charge(entry_cost(map.len()));
            }
            let value = fields.next_value_seed(self.at(place))?;
            if place.is_kept() || place != Position::LeftOut && !budget.is_exceeded() {
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }
}

impl Tree<'_> {
    /// Returns whether this map wraps objects. It is free: an object costs the same in a list, an event or alone.
    fn is_envelope(self) -> bool {
        matches!(self.place, Position::Event | Position::List)
    }

    /// Passes on the items of a list; each has the whole budget.
    fn hand_over<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if self.budget.is_exceeded() {
            return Err(A::Error::custom("too large"));
        }
        self.budget.reset();
        while let Some(item) = items.next_element_seed(self.at(Position::Root(false)))? {
            if !(self.each)(Document::new(item, self.budget)) {
                return Err(A::Error::custom("ended"));
            }
            self.budget.reset();
        }
        Ok(())
    }
}

/// Appends `item`, if the budget allows it.
fn push(list: &mut Vec<Value>, item: Value, budget: &Budget) {
    let growth = if list.len() < list.capacity() { 0 } else { list.capacity().max(4) };
    if budget.charge(growth * VALUE) {
        list.push(item);
    }
}
