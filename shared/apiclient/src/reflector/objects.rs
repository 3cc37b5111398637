//! Objects of a store, limited by number and weight.

use std::{collections::BTreeMap, mem};

/// The maximum number of objects, their maximum total weight, and how to weigh one.
pub(super) type Limits<T> = (usize, usize, fn(&T) -> usize);

/// Objects by name; `None` stands for an invalid object, or an object that the weight limit omits.
#[derive(Debug)]
pub(super) struct Objects<T> {
    pub(super) limits: Limits<T>,
    pub(super) by_name: BTreeMap<String, Option<T>>,
    /// The total weight.
    pub(super) weight: usize,
    /// There are more objects than the limit.
    pub(super) truncated: bool,
    /// How many objects were omitted as the heaviest, ever.
    pub(super) left_out: usize,
}

impl<T: PartialEq> Objects<T> {
    pub(super) fn within(limits: Limits<T>) -> Self {
        Self { limits, by_name: BTreeMap::new(), weight: 0, truncated: false, left_out: 0 }
    }

    /// Inserts an object, and omits the heaviest ones until the total weight is within its limit. Returns whether
    /// anything has changed.
    pub(super) fn insert(&mut self, name: String, object: Option<T>) -> bool {
        let (count, most, _) = self.limits;
        let known = self.by_name.get(&name);
        if known == Some(&object) {
            return false;
        }
        if known.is_none() && self.by_name.len() >= count {
            return !mem::replace(&mut self.truncated, true);
        }
        self.weight += self.weigh(object.as_ref());
        let before = self.by_name.insert(name, object).flatten();
        self.weight -= self.weigh(before.as_ref());
        while self.weight > most {
            let weigh = self.limits.2;
            let objects = self.by_name.values_mut().filter(|object| object.is_some());
            let heaviest = objects.max_by_key(|object| object.as_ref().map_or(0, weigh));
            let Some(heaviest) = heaviest.and_then(Option::take) else { break };
            self.weight -= weigh(&heaviest);
            self.left_out += 1;
        }
        true
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some(removed) = self.by_name.remove(name) else { return false };
        self.weight -= self.weigh(removed.as_ref());
        true
    }

    pub(super) fn first_invalid(&self) -> Option<&String> {
        self.by_name.iter().find(|(_, object)| object.is_none()).map(|(name, _)| name)
    }

    fn weigh(&self, object: Option<&T>) -> usize {
        object.map_or(0, self.limits.2)
    }

    /// The number of objects, their total weight, and how many were omitted as the heaviest.
    pub(super) fn size(&self) -> (usize, usize, usize) {
        (self.by_name.len(), self.weight, self.left_out)
    }

    /// Returns whether omitted objects may fit now, since the size was `before`.
    pub(super) fn made_room(&self, before: (usize, usize, usize)) -> bool {
        let (count, weight, left_out) = self.size();
        (self.truncated || left_out > 0)
            && left_out == before.2
            && (count < before.0 || weight < before.1)
    }
}
