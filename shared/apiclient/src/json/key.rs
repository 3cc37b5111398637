//! Keys of objects, charged before they are copied.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Visitor};

use crate::memory::Budget;

/// The key of the next entry of a map that has `entries`; `None` beyond the budget.
pub(super) struct Key<'a> {
    pub(super) budget: &'a Budget,
    pub(super) entries: usize,
}

/// The relevant fields of an object and of its metadata.
#[derive(Clone, Copy)]
pub(super) enum Field {
    ManagedFields,
    Metadata,
    Name,
    Namespace,
    Other,
    ResourceVersion,
    Uid,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = (Field, Option<String>);

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = (Field, Option<String>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let field = match key {
            "managedFields" => Field::ManagedFields,
            "metadata" => Field::Metadata,
            "name" => Field::Name,
            "namespace" => Field::Namespace,
            "resourceVersion" => Field::ResourceVersion,
            "uid" => Field::Uid,
            _ => Field::Other,
        };
        let charged = self.budget.charge_entry(self.entries) && self.budget.charge_text(key.len());
        Ok((field, charged.then(|| key.to_owned())))
    }
}
