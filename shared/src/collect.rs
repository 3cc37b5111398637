//! Collecting in little code.

/// A map or set of all `items`, inserted one by one; of items with the same key the last one stays.
/// `Iterator::collect` sorts them first, which is 2.4 KB of machine code for each type that it is used with.
pub fn collect<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}
